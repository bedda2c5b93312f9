//! Replaces uids, revisions and variables in the responses of a case with placeholders.

use std::collections::{BTreeSet, HashMap};

use anyhow::Context;

use crate::json::Json;
use crate::shape::{is_uuid, mask};

pub(crate) struct Placeholders {
    /// The names and values of the variables. The first four variables are `id`, `ns`, `Id` and `dollar`, followed by
    /// the variables that steps have set. `dollar` has the value `$`, so `${dollar}{x}` results in the text `${x}`.
    variables: Vec<(String, String)>,
    hidden: BTreeSet<String>,
    /// The number of each uid, counted in order of first appearance.
    uids: HashMap<String, usize>,
    revisions: BTreeSet<u128>,
}

impl Placeholders {
    /// Creates the placeholders for a run. All generated names of the run contain `id`.
    pub(crate) fn new(id: &str) -> Self {
        let mut capitalised = id.to_owned();
        capitalised.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
        let variables =
            [("id", id.to_owned()), ("ns", format!("t-{id}")), ("Id", capitalised), ("dollar", "$".to_owned())];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        Self { variables, hidden: BTreeSet::new(), uids: HashMap::new(), revisions: BTreeSet::new() }
    }

    pub(crate) fn save(&mut self, name: &str, value: &Json) {
        // Skip revisions and uids, because other placeholders replace them.
        if !value.is_digits() && !value.text().is_some_and(is_uuid) {
            self.hidden.insert(name.to_owned());
        }
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.plain()));
    }

    /// Replaces variables of the form `${x}` in a text with their values. For a numeric variable, `${x+5}` adds 5 to
    /// the value.
    pub(crate) fn fill(&self, text: &str) -> anyhow::Result<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            match after.split_once('}') {
                Some((name, after)) if !name.is_empty() => {
                    out.push_str(&self.variable(name)?);
                    rest = after;
                }
                _ => {
                    out.push_str("${");
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    pub(crate) fn fill_json(&self, value: &Json) -> anyhow::Result<Json> {
        Ok(match value {
            Json::Text(text) => Json::Text(self.fill(text)?),
            Json::Array(items) => Json::Array(items.iter().map(|item| self.fill_json(item)).collect::<Result<_, _>>()?),
            Json::Object(members) => {
                let filled = members.iter().map(|(key, value)| Ok((self.fill(key)?, self.fill_json(value)?)));
                Json::Object(filled.collect::<anyhow::Result<_>>()?)
            }
            other => other.clone(),
        })
    }

    fn variable(&self, name: &str) -> anyhow::Result<String> {
        let find = |name: &str| self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        if let Some((base, sign)) = name.rfind(['+', '-']).map(|at| name.split_at(at))
            && let Ok(offset) = sign.parse::<i128>()
            && let Some(value) = find(base)
        {
            let value: i128 = value.parse().with_context(|| format!("variable {base} is not a number: {value:?}"))?;
            return Ok((value + offset).to_string());
        }
        find(name).map(str::to_owned).with_context(|| format!("unknown variable {name}"))
    }

    /// Numbers the uids in a response, and collects the revisions, in order of appearance.
    pub(crate) fn learn(&mut self, value: &Json) {
        match value {
            Json::Array(items) => items.iter().for_each(|item| self.learn(item)),
            Json::Object(members) => {
                let (list, bookmark) = (is_list(value), is_bookmark(value));
                for (key, member) in members {
                    match (key.as_str(), member) {
                        ("metadata", Json::Object(inner)) if list => {
                            inner
                                .iter()
                                .filter(|(key, _)| *key != "resourceVersion")
                                .for_each(|(_, value)| self.learn(value));
                            continue;
                        }
                        ("object", _) if bookmark => continue,
                        ("resourceVersion", Json::Text(text)) if member.is_digits() && text != "0" => {
                            self.revisions.extend(text.parse::<u128>());
                        }
                        ("uid", Json::Text(uid)) if is_uuid(uid) => {
                            let next = self.uids.len() + 1;
                            self.uids.entry(uid.clone()).or_insert(next);
                        }
                        _ => {}
                    }
                    self.learn(member);
                }
            }
            _ => {}
        }
    }

    /// Returns the response with placeholders for all values that differ between runs. Call `mask` only after
    /// [`learn`](Self::learn) has been called for all responses of the case.
    pub(crate) fn mask(&self, value: &Json) -> Json {
        Masking::new(self).value(value, None)
    }
}

struct Masking<'a> {
    known: &'a Placeholders,
    /// The values to replace, longest first, because a shorter value can occur inside a longer value.
    names: Vec<(&'a str, &'a str)>,
    /// The revisions in ascending order. The placeholder of a revision contains its index in this list, starting at 1.
    revisions: Vec<u128>,
}

impl<'a> Masking<'a> {
    fn new(known: &'a Placeholders) -> Self {
        let hidden =
            known.variables.iter().filter(|(name, value)| known.hidden.contains(name) && value.chars().count() > 3);
        let mut names: Vec<(&str, &str)> = hidden.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        names.sort_by_key(|(_, value)| std::cmp::Reverse(value.chars().count()));
        for own in ["ns", "id", "Id"] {
            names.extend(
                known.variables.iter().filter(|(name, _)| name == own).map(|(name, value)| (&**name, &**value)),
            );
        }
        Self { known, names, revisions: known.revisions.iter().copied().collect() }
    }

    fn value(&self, value: &Json, key: Option<&str>) -> Json {
        match value {
            Json::Object(members) => {
                let (list, bookmark) = (is_list(value), is_bookmark(value));
                let masked = members.iter().map(|(name, member)| {
                    let member = match name.as_str() {
                        "metadata" if list => with_revision(member, "<list-rv>"),
                        "object" if bookmark => bookmarked(member),
                        _ => member.clone(),
                    };
                    (self.text(name), self.value(&member, name.rsplit('/').next()))
                });
                Json::Object(masked.collect())
            }
            Json::Array(items) => Json::Array(items.iter().map(|item| self.value(item, key)).collect()),
            Json::Text(text) => Json::Text(match key {
                Some("resourceVersion") if value.is_digits() => {
                    text.parse().ok().and_then(|number| self.rank(number)).unwrap_or_else(|| self.text(text))
                }
                Some("continue") if !text.is_empty() => "<continue>".to_owned(),
                Some("reportingInstance") => text.clone(),
                _ => self.text(text),
            }),
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.names {
            if text.contains(value) {
                text = text.replace(value, &format!("${{{name}}}"));
            }
        }
        let uid = |uid: &str| self.known.uids.get(uid).map(|number| format!("<uid:{number}>"));
        mask(&text, uid, |number| self.rank(number))
    }

    fn rank(&self, revision: u128) -> Option<String> {
        Some(format!("<rv:{}>", self.revisions.binary_search(&revision).ok()? + 1))
    }
}

/// Returns `true` if the value is a list of objects. The `metadata` of a list does not belong to an object.
pub(crate) fn is_list(value: &Json) -> bool {
    let Some(Json::Object(metadata)) = value.member("metadata") else { return false };
    let kind = value.member("kind").map(Json::plain).unwrap_or_default();
    let holds = value.member("items").is_some() || value.member("rows").is_some() || kind.ends_with("List");
    holds && !metadata.contains_key("name")
}

fn is_bookmark(value: &Json) -> bool {
    value.member("type").and_then(Json::text) == Some("BOOKMARK")
}

/// Replaces the revision in the metadata of a list or bookmark with the placeholder, because this revision does not
/// belong to an object.
fn with_revision(metadata: &Json, placeholder: &str) -> Json {
    with_member(metadata, "resourceVersion", |revision| {
        if revision.is_digits() { Json::from(placeholder) } else { revision.clone() }
    })
}

/// Replaces the revisions in the object of a bookmark, including the rows of a table.
fn bookmarked(object: &Json) -> Json {
    const REVISION: &str = "<bookmark-rv>";
    let object = with_member(object, "metadata", |metadata| with_revision(metadata, REVISION));
    if object.at("/metadata/resourceVersion").and_then(Json::text) != Some(REVISION) {
        return object;
    }
    with_member(&object, "rows", |rows| match rows {
        Json::Array(rows) => Json::Array(
            rows.iter()
                .map(|row| {
                    with_member(row, "object", |object| {
                        with_member(object, "metadata", |metadata| {
                            with_member(metadata, "resourceVersion", |_| Json::from(REVISION))
                        })
                    })
                })
                .collect(),
        ),
        other => other.clone(),
    })
}

fn with_member(value: &Json, name: &str, change: impl Fn(&Json) -> Json) -> Json {
    let Json::Object(members) = value else { return value.clone() };
    let changed =
        members.iter().map(|(key, member)| (key.clone(), if key == name { change(member) } else { member.clone() }));
    Json::Object(changed.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: [&str; 2] = ["00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"];

    fn json(text: &str) -> Json {
        serde_json::from_str(text).expect("test JSON")
    }

    #[test]
    fn uids_are_numbered_by_appearance_and_revisions_by_size() {
        let mut known = Placeholders::new("abcdef");
        let text = |uid: &str, revision: &str| {
            json(&format!(r#"{{"metadata":{{"name":"t-abcdef","uid":"{uid}","resourceVersion":"{revision}"}}}}"#))
        };
        let (late, early) = (text(UID[0], "90"), text(UID[1], "7"));
        known.learn(&late);
        known.learn(&early);
        assert_eq!(
            known.mask(&late),
            json(r#"{"metadata":{"name":"${ns}","uid":"<uid:1>","resourceVersion":"<rv:2>"}}"#)
        );
        assert_eq!(known.mask(&early).at("/metadata/resourceVersion"), Some(&Json::from("<rv:1>")));
    }

    #[test]
    fn revisions_of_lists_and_bookmarks_are_masked_separately() {
        let mut known = Placeholders::new("abcdef");
        let list = json(r#"{"kind":"PodList","metadata":{"resourceVersion":"5","continue":"x"},"items":[]}"#);
        let mark = json(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}"#);
        known.learn(&list);
        known.learn(&mark);
        let masked =
            json(r#"{"kind":"PodList","metadata":{"resourceVersion":"<list-rv>","continue":"<continue>"},"items":[]}"#);
        assert_eq!(known.mask(&list), masked);
        let masked = json(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"<bookmark-rv>"}}}"#);
        assert_eq!(known.mask(&mark), masked);
        assert!(known.revisions.is_empty());
    }

    #[test]
    fn variables_are_filled_in_texts_and_masked_in_responses() {
        let mut known = Placeholders::new("abcdef");
        known.save("rv", &Json::from("41"));
        known.save("etag", &Json::from("\"0123\""));
        assert_eq!(known.fill("${ns}?v=${rv+1}&${rv-1} ${").expect("known"), "t-abcdef?v=42&40 ${");
        assert!(known.fill("${other}").is_err());
        assert_eq!(known.mask(&json(r#"["\"0123\"","41"]"#)), json(r#"["${etag}","41"]"#));
    }
}

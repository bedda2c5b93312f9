//! Fills in the templates in a webhook's behaviour.

use crate::json::Json;

/// Replaces `{{POINTER}}` in all strings with the review's value at this JSON pointer, or with `null` if there is no
/// value. If a template is the whole string, the value replaces the string, even if the value has another type. Inside
/// a longer string, a value of another type becomes JSON text.
pub(super) fn fill(value: &Json, review: &Json) -> Json {
    match value {
        Json::Text(text) => fill_text(text, review),
        Json::Array(items) => Json::Array(items.iter().map(|item| fill(item, review)).collect()),
        Json::Object(members) => {
            Json::Object(members.iter().map(|(name, value)| (name.clone(), fill(value, review))).collect())
        }
        other => other.clone(),
    }
}

fn fill_text(text: &str, review: &Json) -> Json {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((pointer, after)) = after.split_once("}}").filter(|(pointer, _)| !pointer.is_empty()) else {
            out.push_str("{{");
            rest = after;
            continue;
        };
        let value = review.at(pointer).cloned().unwrap_or(Json::Null);
        if pointer.len() + "{{}}".len() == text.len() {
            return value;
        }
        out.push_str(&value.plain());
        rest = after;
    }
    out.push_str(rest);
    Json::Text(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        serde_json::from_str(text).expect("test JSON")
    }

    #[track_caller]
    fn check(template: &str, filled: &str) {
        let review = json(r#"{"request":{"name":"a","options":{"n":1},"names":["x","y"]}}"#);
        assert_eq!(fill(&json(template), &review), json(filled));
    }

    #[test]
    fn whole_template_keeps_the_type_of_the_value() {
        check(r#""{{/request/name}}""#, r#""a""#);
        check(r#"{"b":["{{/request/options}}"]}"#, r#"{"b":[{"n":1}]}"#);
        check(r#""{{/request/names/1}}""#, r#""y""#);
        check(r#""{{/request/absent}}""#, "null");
    }

    #[test]
    fn templates_in_a_text_become_text() {
        check(r#""{{/request/name}}-{{/request/names/0}}""#, r#""a-x""#);
        check(r#""n={{/request/options}}.""#, r#""n={\"n\":1}.""#);
        check(r#""{{/request/absent}}!""#, r#""null!""#);
    }

    #[test]
    fn unclosed_and_empty_templates_stay_as_they_are() {
        check(r#""{{/request/name""#, r#""{{/request/name""#);
        check(r#""{{}} {{/request/name}}""#, r#""{{}} a""#);
        check("7", "7");
    }
}

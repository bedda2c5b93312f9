//! Reads and writes `metadata.managedFields`.

use std::collections::BTreeMap;

use pintle_json::{Json, Map};

use super::set::Set;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(pub(super) BTreeMap<ManagerId, Managed>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerId {
    pub(super) manager: String,
    pub(super) applied: bool,
    /// For an update, the API version of the owned fields. An empty string for an apply, because a manager has a single
    /// apply entry for all versions.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Managed {
    /// The API version of the owned paths, because field names can differ between versions.
    pub(super) api_version: String,
    pub(super) set: Set,
    pub(super) time: Option<String>,
}

impl Managed {
    pub(super) fn new(api_version: &str) -> Self {
        Self { api_version: api_version.into(), set: Set::default(), time: None }
    }
}

/// The maximum number of `managedFields` entries for updates. If an object has more update entries, the oldest entries
/// are merged.
const MAX_UPDATERS: usize = 10;
const FOLDED: &str = "ancient-changes";

impl Managers {
    /// Reads `metadata.managedFields`, or returns `None` if an entry is malformed.
    pub(super) fn read(object: &Json) -> Option<Self> {
        object.at("/metadata/managedFields").map_or_else(|| Some(Self::default()), Self::of_entries)
    }

    pub(super) fn of_entries(entries: &Json) -> Option<Self> {
        let mut managers = Self::default();
        for entry in entries.list("") {
            let text = |name: &str| entry[name].text("");
            let applied = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return None,
            };
            if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let id = ManagerId {
                manager: text("manager").into(),
                applied,
                api_version: if applied { String::new() } else { text("apiVersion").into() },
                subresource: text("subresource").into(),
            };
            let managed = Managed {
                api_version: text("apiVersion").into(),
                set: entry.get("fieldsV1").map_or_else(|| Some(Set::default()), Set::from_fields)?,
                time: entry["time"].as_str().map(Into::into),
            };
            managers.0.insert(id, managed);
        }
        Some(managers)
    }

    /// Writes `metadata.managedFields`: first the apply entries and then the update entries, sorted by time, name,
    /// version and subresource.
    pub(super) fn write(&self, object: &mut Json) {
        let Some(metadata) = object.member("metadata") else { return };
        let mut entries: Vec<_> = self.0.iter().collect();
        // Compare the times as strings, because all of them are in UTC and in whole seconds.
        entries.sort_by(|(a, x), (b, y)| {
            let by_time = (!a.applied, &x.time, &a.manager).cmp(&(!b.applied, &y.time, &b.manager));
            by_time.then_with(|| (&x.api_version, &a.subresource).cmp(&(&y.api_version, &b.subresource)))
        });
        if entries.is_empty() {
            metadata.unset("managedFields")
        } else {
            let entries = entries.into_iter().map(|(id, managed)| entry(id, managed));
            metadata.set("managedFields", entries.collect::<Vec<_>>());
        }
    }

    /// Merges the oldest update entries of the same version, until at most [`MAX_UPDATERS`] update entries remain.
    pub(super) fn fold(&mut self) {
        let mut count = self.0.keys().filter(|id| !id.applied).count();
        if count <= MAX_UPDATERS {
            return;
        }
        let mut updaters: Vec<_> = self.0.keys().filter(|id| !id.applied).cloned().collect();
        updaters.sort_by_key(|id| (self.0.get(id).and_then(|managed| managed.time.clone()), id.clone()));
        let mut firsts: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updaters {
            if count <= MAX_UPDATERS {
                return;
            }
            let Some(managed) = self.0.get(&id).cloned() else { continue };
            let Some(first) = firsts.get(&managed.api_version) else {
                firsts.insert(managed.api_version, id);
                continue;
            };
            let folded = ManagerId {
                manager: FOLDED.into(),
                applied: false,
                api_version: managed.api_version.clone(),
                subresource: String::new(),
            };
            if !self.0.contains_key(&folded)
                && let Some(first) = self.0.remove(first)
            {
                self.0.insert(folded.clone(), first);
            }
            if id == folded {
                continue;
            }
            if let Some(into) = self.0.get_mut(&folded) {
                into.set.extend(managed.set);
                // Keep the later of the two times.
                into.time = managed.time;
            }
            self.0.remove(&id);
            count -= 1;
        }
    }
}

fn entry(id: &ManagerId, managed: &Managed) -> Json {
    let mut entry = Map::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            entry.insert(name, value.into());
        }
    };
    put("manager", &id.manager);
    put("operation", if id.applied { "Apply" } else { "Update" });
    put("apiVersion", &managed.api_version);
    put("time", managed.time.as_deref().unwrap_or_default());
    put("fieldsType", "FieldsV1");
    put("subresource", &id.subresource);
    entry.insert("fieldsV1", managed.set.to_fields());
    Json::Object(entry)
}

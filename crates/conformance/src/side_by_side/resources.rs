//! Reads the resources of a server from its discovery documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Context;

use super::manifests::Manifest;
use crate::json::Json;
use crate::session::{Server, Session};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Resource {
    /// The URL path of the group and version, such as `/api/v1` or `/apis/apps/v1`.
    pub(super) root: String,
    pub(super) name: String,
    pub(super) namespaced: bool,
    /// `true` if the server stores objects of this resource. Reviews, for example, are not stored.
    pub(super) stored: bool,
    pub(super) has_status: bool,
}

#[derive(Debug, Default)]
pub(super) struct Resources(BTreeMap<(String, String), Resource>);

impl Resources {
    /// Reads the discovery documents of a server.
    ///
    /// # Errors
    ///
    /// Returns an error if a discovery document cannot be read.
    pub(super) async fn of(server: &Arc<Server>) -> anyhow::Result<Self> {
        let session = Session::new(server, "discovery");
        let groups = session.get("/apis").await?;
        let versions = items(&groups, "groups").iter().flat_map(|group| items(group, "versions"));
        let versions = versions.filter_map(|version| version.member("groupVersion")?.text());
        let mut found = Self::default();
        for (version, root) in [("v1", "/api/v1".to_owned())]
            .into_iter()
            .chain(versions.map(|version| (version, format!("/apis/{version}"))))
        {
            let list = session.get(&root).await.with_context(|| format!("reading {root}"))?;
            found.add(version, &root, &list);
        }
        Ok(found)
    }

    fn add(&mut self, version: &str, root: &str, list: &Json) {
        let text = |entry: &Json, member: &str| entry.member(member).map(Json::plain).unwrap_or_default();
        let entries = items(list, "resources");
        let names: BTreeSet<String> = entries.iter().map(|entry| text(entry, "name")).collect();
        for entry in entries {
            let name = text(entry, "name");
            if name.contains('/') {
                continue;
            }
            let resource = Resource {
                root: root.to_owned(),
                namespaced: entry.member("namespaced") == Some(&Json::Bool(true)),
                stored: items(entry, "verbs").contains(&Json::from("get")),
                has_status: names.contains(&format!("{name}/status")),
                name,
            };
            self.0.insert((version.to_owned(), text(entry, "kind")), resource);
        }
    }

    pub(super) fn get(&self, manifest: &Manifest) -> Option<&Resource> {
        self.0.get(&(manifest.text("/apiVersion").to_owned(), manifest.text("/kind").to_owned()))
    }
}

fn items<'a>(value: &'a Json, member: &str) -> &'a [Json] {
    if let Some(Json::Array(items)) = value.member(member) { items } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_entries_become_resources_with_their_status() {
        let list = r#"{"resources":[
            {"name":"pods","kind":"Pod","namespaced":true,"verbs":["create","get"]},
            {"name":"pods/status","kind":"Pod","namespaced":true,"verbs":["get"]},
            {"name":"reviews","kind":"Review","namespaced":false,"verbs":["create"]}]}"#;
        let mut resources = Resources::default();
        resources.add("v1", "/api/v1", &serde_json::from_str(list).expect("JSON"));
        let get = |kind: &str| {
            let body = format!(r#"{{"apiVersion":"v1","kind":"{kind}"}}"#);
            resources.get(&Manifest { place: String::new(), body: serde_json::from_str(&body).expect("JSON") }).cloned()
        };
        let root = "/api/v1".to_owned();
        let pods =
            Resource { root: root.clone(), name: "pods".into(), namespaced: true, stored: true, has_status: true };
        assert_eq!(get("Pod"), Some(pods));
        assert_eq!(get("Review"), Some(Resource { root, name: "reviews".into(), ..Resource::default() }));
        assert_eq!(get("Other"), None);
    }
}

//! Reads the manifests in a folder and its subfolders.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::json::Json;

#[derive(Clone, Debug)]
pub(super) struct Manifest {
    /// The relative path of the file and the index of the document, such as `pods/a.yaml#2`.
    pub(super) place: String,
    pub(super) body: Json,
}

impl Manifest {
    /// Returns the string at a JSON pointer, or an empty string if the document has none.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.body.at(pointer).and_then(Json::text).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> String {
        format!("{}/{}", self.text("/apiVersion"), self.text("/kind"))
    }

    pub(super) fn is_custom(&self) -> bool {
        let group = self.text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        group.contains('.') && !group.ends_with(".k8s.io") || group.ends_with(".x-k8s.io")
    }

    pub(super) fn is_definition(&self) -> bool {
        self.text("/kind") == "CustomResourceDefinition"
    }
}

#[derive(Debug, Default)]
pub(super) struct Manifests {
    pub(super) documents: Vec<Manifest>,
    /// The skipped documents, each with a reason: invalid YAML, or a missing apiVersion or kind.
    pub(super) skipped: Vec<String>,
}

/// Parses a document. Keys that are numbers become strings, as in kubectl.
fn parse(document: serde_yaml::Deserializer<'_>) -> anyhow::Result<Json> {
    let document = serde_yaml::Value::deserialize(document)?;
    Ok(serde_json::from_str(&serde_json::to_string(&document)?)?)
}

/// Reads all `.yaml`, `.yml` and `.json` files in a folder and its subfolders. Each item of a `List` is a separate
/// document.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if the folder contains no manifests.
pub(super) fn read(folder: &Path) -> anyhow::Result<Manifests> {
    let mut files = Vec::new();
    files_below(folder, &mut files)?;
    files.sort();
    let mut manifests = Manifests::default();
    for file in files {
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
        manifests.add(&name, &bytes);
    }
    ensure!(!manifests.documents.is_empty(), "{}: no manifests", folder.display());
    Ok(manifests)
}

impl Manifests {
    fn add(&mut self, file: &str, bytes: &[u8]) {
        for (index, document) in serde_yaml::Deserializer::from_slice(bytes).enumerate() {
            let place = format!("{file}#{}", index + 1);
            match parse(document) {
                Ok(Json::Null) => {}
                Ok(body) => self.add_body(place, body),
                Err(why) => {
                    self.skipped.push(format!("{place}: {why}"));
                    return;
                }
            }
        }
    }

    fn add_body(&mut self, place: String, body: Json) {
        let is_list = body.member("kind").and_then(Json::text).is_some_and(|kind| kind.ends_with("List"));
        if let (true, Some(Json::Array(items))) = (is_list, body.member("items")) {
            for (index, item) in items.iter().enumerate() {
                self.add_body(format!("{place}.{index}"), item.clone());
            }
            return;
        }
        let manifest = Manifest { place, body };
        if manifest.text("/apiVersion").is_empty() || manifest.text("/kind").is_empty() {
            self.skipped.push(format!("{}: apiVersion or kind is missing", manifest.place));
        } else {
            self.documents.push(manifest);
        }
    }
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, files)?;
        } else if path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known)) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_list_items_are_read_and_others_skipped() {
        let mut manifests = Manifests::default();
        let text =
            "a: 1\n---\n---\n{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, spec: {n: 1.5}}]}\n";
        manifests.add("f.yaml", text.as_bytes());
        manifests.add("g.json", br#"{"apiVersion":"v1","kind":"CustomResourceDefinition"}"#);
        manifests.add("h.yaml", b"a: [");
        let places: Vec<&str> = manifests.documents.iter().map(|manifest| manifest.place.as_str()).collect();
        assert_eq!(places, ["f.yaml#3.0", "g.json#1"]);
        assert_eq!(manifests.documents[0].body.at("/spec/n").map(ToString::to_string).as_deref(), Some("1.5"));
        assert!(manifests.documents[1].is_definition());
        assert_eq!(manifests.skipped.len(), 2, "{:?}", manifests.skipped);
    }

    #[test]
    fn folder_without_a_manifest_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("notes.txt"), "apiVersion: v1").expect("write");
        let error = read(folder.path()).expect_err("no manifests");
        assert!(error.to_string().ends_with("no manifests"), "{error}");
    }
}

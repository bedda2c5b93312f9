//! Reads manifests from files. Error messages name the file and position of a manifest.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use pintle::meta::{DynamicObject, Object};
use serde::Deserialize;

#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) location: Location,
    pub(crate) object: DynamicObject,
}

#[derive(Clone, Debug)]
pub(crate) struct Location {
    file: PathBuf,
    document: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file.display(), self.document)
    }
}

/// Reads the objects from all YAML files in `dir`, in the order of the file names.
pub(crate) fn read_dir(dir: &Path) -> Result<Vec<Manifest>> {
    let entries = fs::read_dir(dir).with_context(|| format!("{}: cannot list the folder", dir.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("{}: cannot list the folder", dir.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "{}: no .yaml file in the folder", dir.display());
    files.sort();
    let mut manifests = Vec::new();
    for file in &files {
        manifests.extend(read(file)?);
    }
    Ok(manifests)
}

pub(crate) fn read(file: &Path) -> Result<Vec<Manifest>> {
    let text = fs::read_to_string(file).with_context(|| format!("{}: cannot read the file", file.display()))?;
    let mut manifests = Vec::new();
    for (index, document) in serde_yaml::Deserializer::from_str(&text).enumerate() {
        let location = Location { file: file.into(), document: index + 1 };
        let value = serde_json::Value::deserialize(document).with_context(|| format!("{location}: invalid YAML"))?;
        if value.is_null() {
            continue;
        }
        let object: DynamicObject =
            serde_json::from_value(value).with_context(|| format!("{location}: not an object"))?;
        for (member, value) in [("apiVersion", &object.types.api_version), ("kind", &object.types.kind)] {
            ensure!(!value.is_empty(), "{location}: {member} is missing");
        }
        ensure!(!object.name().is_empty(), "{location}: metadata.name is missing");
        manifests.push(Manifest { location, object });
    }
    Ok(manifests)
}

/// Checks that all manifests are namespaced websites with unique keys and valid page names.
pub(crate) fn expect_websites(manifests: &[Manifest]) -> Result<()> {
    let mut seen = HashMap::new();
    for Manifest { location, object } in manifests {
        let (api_version, kind) = (&object.types.api_version, &object.types.kind);
        if (api_version.as_str(), kind.as_str()) != ("example.com/v1", "Website") {
            bail!("{location}: {kind:?} of {api_version:?} is not supported; only Website of example.com/v1 is");
        }
        ensure!(object.namespace().is_some(), "{location}: metadata.namespace is missing");
        if let Some(first) = seen.insert(object.key(), location) {
            bail!("{location}: website {} already exists in {first}; give it another name", object.key());
        }
        // Page names are used as keys in a ConfigMap, so they must be valid ConfigMap keys.
        let is_key = |name: &str| {
            !name.is_empty()
                && name.len() <= 253
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        };
        let pages = object.data.get("spec").and_then(|spec| spec["pages"].as_object()).into_iter().flatten();
        if let Some((page, _)) = pages.into_iter().find(|(page, _)| !is_key(page)) {
            bail!("{location}: spec.pages: {page:?} is not a valid page name; use letters, digits, '-', '_' and '.'");
        }
    }
    Ok(())
}

//! Manifests from files, each remembered with its place, so that a fault can be pinned to it.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use pintle::meta::{DynamicObject, Object};
use serde::Deserialize;

/// One document of one file.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) place: Place,
    pub(crate) object: DynamicObject,
}

/// Where a manifest stands.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    file: PathBuf,
    /// Counted from 1.
    document: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}", self.file.display(), self.document)
    }
}

/// The objects of all YAML files in `dir`, in the order of their names.
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

/// The objects of one YAML file.
pub(crate) fn read(file: &Path) -> Result<Vec<Manifest>> {
    let text = fs::read_to_string(file).with_context(|| format!("{}: cannot read the file", file.display()))?;
    let mut manifests = Vec::new();
    for (index, document) in serde_yaml::Deserializer::from_str(&text).enumerate() {
        let place = Place { file: file.into(), document: index + 1 };
        let value = serde_json::Value::deserialize(document).with_context(|| format!("{place}: no valid YAML"))?;
        if value.is_null() {
            continue;
        }
        let object: DynamicObject = serde_json::from_value(value).with_context(|| format!("{place}: no object"))?;
        for (member, value) in [("apiVersion", &object.types.api_version), ("kind", &object.types.kind)] {
            ensure!(!value.is_empty(), "{place}: {member} is missing");
        }
        ensure!(!object.name().is_empty(), "{place}: metadata.name is missing");
        manifests.push(Manifest { place, object });
    }
    Ok(manifests)
}

/// Refuses all that is not a namespaced website, before any of it is created.
pub(crate) fn expect_websites(manifests: &[Manifest]) -> Result<()> {
    let mut seen = HashMap::new();
    for Manifest { place, object } in manifests {
        let (api_version, kind) = (&object.types.api_version, &object.types.kind);
        if (api_version.as_str(), kind.as_str()) != ("example.com/v1", "Website") {
            bail!("{place}: {kind:?} of {api_version:?} is not known here; only Website of example.com/v1 is");
        }
        ensure!(object.namespace().is_some(), "{place}: metadata.namespace is missing");
        if let Some(first) = seen.insert(object.key(), place) {
            bail!("{place}: website {} is in {first} already; give it another name", object.key());
        }
        // Each page becomes a key of a ConfigMap.
        let is_key = |name: &str| {
            !name.is_empty()
                && name.len() <= 253
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        };
        let pages = object.data.get("spec").and_then(|spec| spec["pages"].as_object()).into_iter().flatten();
        if let Some((page, _)) = pages.into_iter().find(|(page, _)| !is_key(page)) {
            bail!("{place}: spec.pages: {page:?} is no page's name; take letters, digits, '-', '_' and '.'");
        }
    }
    Ok(())
}

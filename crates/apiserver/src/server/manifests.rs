//! Reads manifest files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pintle_json::Json;
use pintle_schema as schema;

use super::LoadError;

pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) number: usize,
    /// The objects in a document, or the reason why the document cannot be read. A List document contains several
    /// objects.
    pub(crate) objects: Result<Vec<Json>, String>,
}

/// Reads a manifest file, or all manifest files below a folder, in the order of their paths.
pub(crate) fn read(path: &Path) -> Result<Vec<Document>, LoadError> {
    let mut documents = Vec::new();
    for path in files(path)? {
        let unreadable = |cause| LoadError::Unreadable { path: path.clone(), cause };
        let manifest = std::fs::read(&path).map_err(unreadable)?;
        let invalid = |why| unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
        let manifest = schema::yaml_text(&manifest).map_err(invalid)?;
        let found = (1..).zip(documents_of(&manifest));
        documents.extend(found.map(|(number, objects)| Document { path: path.clone(), number, objects }));
    }
    Ok(documents)
}

/// Returns the objects of each document in a manifest's text. Iterating over the documents ends after an unreadable
/// document.
pub(super) fn documents_of(manifest: &str) -> impl Iterator<Item = Result<Vec<Json>, String>> {
    schema::yaml_documents(manifest).map(|document| {
        Ok(match document? {
            Json::Null => Vec::new(),
            list if list["kind"].as_str() == Some("List") => list["items"].as_array().cloned().unwrap_or_default(),
            object => vec![object],
        })
    })
}

pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let mut files = Vec::new();
    if path.is_dir() {
        find(path, &mut files, &mut HashSet::new())?
    } else {
        files.push(path.to_owned())
    }
    files.sort();
    Ok(files)
}

/// Finds the manifest files below a folder. `seen` contains the folders that
/// were already read, which prevents endless recursion through symbolic links.
fn find(dir: &Path, files: &mut Vec<PathBuf>, seen: &mut HashSet<PathBuf>) -> Result<(), LoadError> {
    let unreadable = |cause| LoadError::Unreadable { path: dir.to_owned(), cause };
    if !seen.insert(dir.canonicalize().map_err(unreadable)?) {
        return Ok(());
    }
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            find(&path, files, seen)?;
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
            files.push(path);
        }
    }
    Ok(())
}

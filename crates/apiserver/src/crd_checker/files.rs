//! Checks the manifest files of definitions and custom resources.

use std::fmt;
use std::path::{Path, PathBuf};

use pintle_apiextensions::RuleCost;

use super::Rejection;
use super::offline::{Offline, Sample};
use crate::server::LoadError;
use crate::server::manifests::{self, Document};

/// A definition or object in a manifest file, with the result of the check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckedManifest {
    /// The path of the file.
    pub path: PathBuf,
    /// The index of the document in the file, starting at 1.
    pub document: usize,
    /// The object's kind and name, for reports.
    pub object: String,
    /// The estimated cost of each validation rule. The list is empty for rejected definitions and for other objects.
    pub rules: Vec<RuleCost>,
    /// The server's warnings about this object.
    pub warnings: Vec<String>,
    /// The server's error if the object is rejected, or `None`.
    pub rejection: Option<Rejection>,
}

/// Prints the result of the check, the warnings, and the cost of each rule in percent of the cost limit.
impl fmt::Display for CheckedManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {}, {}: ", self.path.display(), self.document, self.object)?;
        match &self.rejection {
            None => f.write_str("accepted")?,
            Some(rejection) => write!(f, "rejected: {rejection}")?,
        }
        for RuleCost { field, cost, .. } in &self.rules {
            write!(f, "\n  {field}: {:.1} % of the cost limit", *cost as f64 * 100.0 / RuleCost::LIMIT as f64)?;
        }
        self.warnings.iter().try_for_each(|warning| write!(f, "\n  warning: {warning}"))
    }
}

/// Checks the definitions and objects in manifest files, without a server.
/// Folders are searched recursively for `.yaml`, `.yml` and `.json` files.
///
/// First checks the definitions in all files, and then checks all other objects against these definitions. Objects of
/// built-in kinds are also checked, but must not depend on other objects.
///
/// # Errors
///
/// Returns an error if a file cannot be read.
pub fn check_manifests(paths: &[impl AsRef<Path>]) -> Result<Vec<CheckedManifest>, LoadError> {
    let mut documents = Vec::new();
    for path in paths {
        documents.extend(manifests::read(path.as_ref())?);
    }
    let mut offline = Offline::new();
    let mut checked = Vec::new();
    for wants_definitions in [true, false] {
        for Document { path, number, objects } in &documents {
            let objects = match objects {
                Ok(objects) => objects,
                Err(why) if wants_definitions => {
                    checked.push(unreadable(path, *number, why));
                    continue;
                }
                Err(_) => continue,
            };
            for object in objects {
                let sample = Sample::of(object.clone());
                if sample.is_definition() == wants_definitions {
                    checked.push(check(&mut offline, sample, path, *number));
                }
            }
        }
    }
    Ok(checked)
}

fn unreadable(path: &Path, document: usize, why: &str) -> CheckedManifest {
    let rejection = Rejection::invalid(format!("cannot read the document: {why}"));
    CheckedManifest {
        path: path.to_owned(),
        document,
        object: "not YAML".into(),
        rules: Vec::new(),
        warnings: Vec::new(),
        rejection: Some(rejection),
    }
}

fn check(offline: &mut Offline, sample: Sample, path: &Path, document: usize) -> CheckedManifest {
    let object = sample.title();
    let outcome = if sample.is_definition() {
        offline.define(sample).map(|defined| (defined.rules, defined.warnings))
    } else {
        offline.create(sample).map(|checked| (Vec::new(), checked.warnings))
    };
    let (result, rejection) = match outcome {
        Ok(result) => (result, None),
        Err(rejection) => (Default::default(), Some(rejection)),
    };
    let (rules, warnings) = result;
    CheckedManifest { path: path.to_owned(), document, object, rules, warnings, rejection }
}

//! Bodies as objects and patches.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::kinds::Kind;
use crate::manager::Manager;
use crate::request::options::FieldValidation;

/// A media type that bodies come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMedia {
    Json,
    Yaml,
}

/// A body, as it came.
#[derive(Clone, Debug)]
pub(crate) struct RawBody {
    pub(crate) bytes: Bytes,
    pub(crate) media: BodyMedia,
}

/// An object from a body.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
}

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    /// By media type. Custom resources know no strategic merge.
    pub(crate) fn of(media: &str, custom: bool) -> Option<Self> {
        match media {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// The media type of a body; parameters and letter case do not count, none at all is JSON.
pub(crate) fn media(content_type: &str) -> Option<BodyMedia> {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media.as_str() {
        "" | "application/json" => Some(BodyMedia::Json),
        "application/yaml" => Some(BodyMedia::Yaml),
        _ => None,
    }
}

/// A body as a value; the error says what is wrong with it.
pub(crate) fn parse(bytes: &[u8], media: BodyMedia) -> Result<Value, String> {
    match media {
        BodyMedia::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        BodyMedia::Yaml => serde_yaml::from_slice(bytes).map_err(|error| error.to_string()),
    }
}

/// An object of the kind that the path names.
pub(crate) fn object(kind: &Arc<Kind>, body: &RawBody, validation: FieldValidation) -> Outcome<Decoded> {
    let unrecognized = |why: &str| {
        Failure::bad_request(format!("the object provided is unrecognized (must be of type {}): {why}", kind.kind))
    };
    let value = parse(&body.bytes, body.media).map_err(|why| unrecognized(&why))?;
    let mut value = match value {
        Value::Null if !kind.custom => Value::Object(serde_json::Map::new()),
        Value::Object(_) => value,
        _ => return Err(unrecognized("it is no object")),
    };
    check_types(kind, &mut value)?;
    let pruned = kind.strategy.prune(&mut value);
    let mut warnings = Vec::new();
    if !pruned.is_empty() {
        let unknown: Vec<_> = pruned.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        match validation {
            FieldValidation::Strict => {
                return Err(Failure::bad_request(format!(
                    "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
                    kind.kind,
                    kind.version,
                    kind.kind,
                    unknown.join(", ")
                )));
            }
            FieldValidation::Warn => warnings = unknown,
            FieldValidation::Ignore => (),
        }
    }
    Ok(Decoded { value, warnings })
}

/// The object must call itself what the path says; built-in kinds may leave it out.
fn check_types(kind: &Kind, value: &mut Value) -> Outcome<()> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    let expected = kind.api_version();
    if kind.custom && name.is_empty() {
        return Err(Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing",
            kind.kind
        )));
    }
    if !name.is_empty() && name != kind.kind {
        return Err(Failure::bad_request(format!(
            "{name} in version {api_version:?} cannot be handled as a {}",
            kind.kind
        )));
    }
    if (!api_version.is_empty() || kind.custom) && api_version != expected {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if let Some(object) = value.as_object_mut() {
        object.insert("apiVersion".into(), expected.into());
        object.insert("kind".into(), kind.kind.as_str().into());
    }
    Ok(())
}

/// A patch that has been read, ready to be laid over objects.
#[derive(Debug)]
pub(crate) struct Patcher<'a> {
    kind: &'a Arc<Kind>,
    patch_kind: PatchKind,
    patch: Value,
    manager: &'a Manager<'a>,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Patcher<'a> {
    pub(crate) fn new(
        kind: &'a Arc<Kind>,
        patch_kind: PatchKind,
        bytes: &[u8],
        manager: &'a Manager<'a>,
        _subresource: Option<&str>,
    ) -> Outcome<Self> {
        let media = if patch_kind == PatchKind::Apply { BodyMedia::Yaml } else { BodyMedia::Json };
        let patch = parse(bytes, media).map_err(|why| Failure::bad_request(format!("error decoding patch: {why}")))?;
        Ok(Self { kind, patch_kind, patch, manager, warnings: Mutex::new(Vec::new()) })
    }

    /// The patched object.
    pub(crate) fn make(&self, live: Option<&Value>) -> Outcome<Value> {
        let Some(live) = live else { return Err(Failure::internal("apply is not there yet")) };
        let _ = (self.kind, self.manager);
        match self.patch_kind {
            PatchKind::Merge | PatchKind::Strategic => {
                let mut new = live.clone();
                merge(&mut new, &self.patch);
                Ok(new)
            }
            _ => Err(Failure::internal("that patch is not there yet")),
        }
    }

    /// What to warn the client of.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (name, value) in members {
        match value {
            Value::Null => {
                target.remove(name);
            }
            value => merge(target.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}

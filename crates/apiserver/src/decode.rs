//! Bodies as objects and patches.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::kinds::Kind;
use crate::manager::Manager;
use crate::protobuf;
use crate::request::options::FieldValidation;
use crate::schema::{self, Finding};
use crate::validate::FieldFault;

/// A media type that bodies come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMedia {
    Json,
    Yaml,
    /// For the built-in kinds alone.
    Protobuf,
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
        "application/vnd.kubernetes.protobuf" => Some(BodyMedia::Protobuf),
        _ => None,
    }
}

/// A body as a value; the error says what is wrong with it.
pub(crate) fn parse(bytes: &[u8], media: BodyMedia) -> Result<Value, String> {
    match media {
        BodyMedia::Json => serde_json::from_slice(bytes).map_err(|error| error.to_string()),
        BodyMedia::Yaml => serde_yaml::from_slice(bytes).map_err(|error| error.to_string()),
        BodyMedia::Protobuf => protobuf::decode(bytes),
    }
}

/// An object of the kind that the path names.
pub(crate) fn object(kind: &Arc<Kind>, body: &RawBody, validation: FieldValidation) -> Outcome<Decoded> {
    let schema = kind.schema().ok_or_else(Failure::no_such_resource)?;
    let api_version = kind.api_version();
    let expected = schema::Expected { api_version: &api_version, schema: &schema };
    let (bytes, format) = match body.media {
        BodyMedia::Json => (body.bytes.clone(), schema::Format::Json),
        BodyMedia::Yaml => (body.bytes.clone(), schema::Format::Yaml),
        BodyMedia::Protobuf => {
            let object = protobuf::decode(&body.bytes).map_err(Failure::bad_request)?;
            (object.to_string().into(), schema::Format::Json)
        }
    };
    let mut decoded =
        schema::decode(&bytes, format, &expected).map_err(|error| Failure::bad_request(error.to_string()))?;
    decoded.findings.extend(kind.strategy.prune(&mut decoded.object).into_iter().map(Finding::Unknown));
    if validation == FieldValidation::Strict
        && let Some(why) = schema::strict_error(&decoded.findings, &expected)
    {
        return Err(Failure::bad_request(why));
    }
    Ok(Decoded { value: decoded.object, warnings: warnings(&decoded.findings, validation) })
}

fn warnings(findings: &[Finding], validation: FieldValidation) -> Vec<String> {
    match validation {
        FieldValidation::Ignore => Vec::new(),
        _ => findings.iter().map(ToString::to_string).collect(),
    }
}

/// A patch that has been read, ready to be laid over objects.
#[derive(Debug)]
pub(crate) struct Patcher<'a> {
    kind: &'a Arc<Kind>,
    patch_kind: PatchKind,
    patch: Value,
    manager: &'a Manager<'a>,
    subresource: Option<&'a str>,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Patcher<'a> {
    pub(crate) fn new(
        kind: &'a Arc<Kind>,
        patch_kind: PatchKind,
        bytes: &[u8],
        manager: &'a Manager<'a>,
        subresource: Option<&'a str>,
    ) -> Outcome<Self> {
        let media = if patch_kind == PatchKind::Apply { BodyMedia::Yaml } else { BodyMedia::Json };
        let patch = parse(bytes, media).map_err(|why| Failure::bad_request(format!("error decoding patch: {why}")))?;
        Ok(Self { kind, patch_kind, patch, manager, subresource, warnings: Mutex::new(Vec::new()) })
    }

    /// The patched object, with `apiVersion` and `kind`.
    pub(crate) fn make(&self, live: Option<&Value>) -> Outcome<Value> {
        if self.patch_kind == PatchKind::Apply {
            let applied = self.manager.apply(self.kind, live, &self.patch, self.subresource)?;
            return self.read(applied, false);
        }
        let absent = || Failure::not_found(&self.kind.resource(), "");
        let mut new = live.ok_or_else(absent)?.clone();
        match self.patch_kind {
            PatchKind::Merge | PatchKind::Strategic => merge(&mut new, &self.patch),
            _ => return Err(Failure::internal("that patch is not there yet")),
        }
        self.read(new, true)
    }

    /// Reads the patched object by its types, as a body is read.
    fn read(&self, patched: Value, told_as_patch: bool) -> Outcome<Value> {
        let Some(schema) = self.kind.schema() else { return Ok(patched) };
        let refused = |why: String| match told_as_patch {
            true => {
                let fault = FieldFault::invalid_text("patch", &patched.to_string(), why);
                Failure::invalid_named("", "", "", vec![fault])
            }
            false => Failure::plain(500, format!("failed to convert new object to proper version: {why}")),
        };
        let mut decoded = schema.read(patched.clone()).map_err(|error| refused(error.to_string()))?;
        decoded.findings.extend(self.kind.strategy.prune(&mut decoded.object).into_iter().map(Finding::Unknown));
        let validation = self.manager.options.field_validation;
        if validation == FieldValidation::Strict
            && let Some(why) = schema::strict_words(&decoded.findings)
        {
            return Err(refused(why));
        }
        *self.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings(&decoded.findings, validation);
        Ok(decoded.object)
    }

    /// The patch itself.
    pub(crate) fn patch(&self) -> &Value {
        &self.patch
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

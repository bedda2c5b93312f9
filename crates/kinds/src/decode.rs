//! Decodes request bodies into objects and patches.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::How;
use pintle_apimachinery::request::webhook_calls::WebhookCalls;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, go_error};
use pintle_meta::__private::Mutex;
use pintle_meta::{FieldValidation, Reason, StatusDetails};
use pintle_schema::patch::{PatchBody, PatchError};
use pintle_schema::{self as schema, StrictFinding, protobuf};

use crate::Kind;
use bytes::Bytes;

use crate::writer::Writer;

/// A request body's media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMedia {
    Json,
    Yaml,
    /// Protobuf, which only built-in kinds support.
    Protobuf,
}

/// An encoded request body. A YAML body is parsed when the `RawBody` is created, but only decoding reports a parse
/// error.
#[derive(Clone)]
pub struct RawBody {
    bytes: Bytes,
    content: BodyContent,
}

#[derive(Clone, Debug)]
enum BodyContent {
    Json,
    Yaml(schema::Yaml),
    Protobuf,
}

impl RawBody {
    /// Creates a JSON body.
    pub fn json(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), content: BodyContent::Json }
    }

    /// Creates a body with the media type `media`.
    pub fn new(bytes: Bytes, media: BodyMedia) -> Self {
        let content = match media {
            BodyMedia::Json => BodyContent::Json,
            BodyMedia::Protobuf => BodyContent::Protobuf,
            BodyMedia::Yaml => BodyContent::Yaml(schema::read_yaml(&bytes)),
        };
        Self { bytes, content }
    }

    /// Decodes the body into a value, or returns the reason why the body is invalid. If a protobuf body has no
    /// apiVersion and kind, both are taken from `expected`.
    pub fn value(&self, expected: (&str, &str)) -> Result<Json, String> {
        match &self.content {
            BodyContent::Json => serde_json::from_slice(&self.bytes)
                .map_err(|error| go_error(&error, &String::from_utf8_lossy(&self.bytes))),
            BodyContent::Yaml(read) => read.clone().map(|(value, _)| value),
            BodyContent::Protobuf => protobuf::decode(&self.bytes, expected),
        }
    }
}

/// Returns kube-apiserver's error message for the options of a DELETE request, if [`RawBody::value`] failed.
pub fn undecodable_options(media: BodyMedia, why: &str) -> String {
    match media {
        BodyMedia::Json => format!("couldn't get version/kind; json parse error: {why}"),
        BodyMedia::Yaml => why.strip_prefix(schema::YAML_CONVERSION).unwrap_or(why).into(),
        BodyMedia::Protobuf => why.into(),
    }
}

/// Returns the name of the object in a body, or an empty string if the object has no name or the body is invalid.
pub fn name(bytes: Bytes, content_type: &str) -> String {
    let Some(media) = media(content_type) else { return String::new() };
    let object = RawBody::new(bytes, media).value(("", "")).unwrap_or_default();
    metadata::name(&object).to_owned()
}

/// A decoded object.
#[derive(Clone)]
pub struct BodyObject {
    pub value: Json,
    pub warnings: Vec<String>,
}

/// The patch types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    /// Returns the patch type for a media type, if the kind supports it.
    pub fn of(media: &str, kind: &Kind) -> Option<Self> {
        match media {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" if kind.takes_strategic_patches() => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        }
    }

    pub fn how(self) -> How {
        if self == Self::Apply { How::Apply } else { How::Patch }
    }

    /// Returns the format of a patch of this type.
    pub fn body(self) -> BodyMedia {
        if self == Self::Apply { BodyMedia::Yaml } else { BodyMedia::Json }
    }
}

/// Parses a content type, ignoring parameters and letter case. An empty content type counts as JSON.
pub fn media(content_type: &str) -> Option<BodyMedia> {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media.as_str() {
        "" | "application/json" => Some(BodyMedia::Json),
        "application/yaml" => Some(BodyMedia::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(BodyMedia::Protobuf),
        _ => None,
    }
}

/// Decodes a body into an object of kind `kind`.
pub fn object(kind: &Arc<Kind>, body: &RawBody, validation: FieldValidation) -> Outcome<BodyObject> {
    let schema = kind.schema().ok_or_else(Failure::no_such_resource)?;
    let api_version = kind.api_version();
    let expected = schema::Expected { api_version: &api_version, schema: &schema };
    let format = match &body.content {
        BodyContent::Json => schema::BodyFormat::Json,
        BodyContent::Yaml(read) => schema::BodyFormat::Yaml(read),
        BodyContent::Protobuf => schema::BodyFormat::Protobuf,
    };
    let mut decoded =
        schema::decode(&body.bytes, format, &expected).map_err(|error| Failure::bad_request(error.to_string()))?;
    let unconvertible = || kind.strategy.unconvertible(&decoded.object);
    if let Some(why) = malformed(kind, &decoded.object).or_else(unconvertible) {
        return Err(Failure::bad_request(schema::cannot_be_handled(&expected, &why)));
    }
    decoded.findings.extend(unknown(kind, &mut decoded.object));
    if validation == FieldValidation::Strict
        && let Some(why) = schema::strict_error(&decoded.findings, &expected)
    {
        return Err(Failure::bad_request(why));
    }
    Ok(BodyObject { value: decoded.object, warnings: warnings(&decoded.findings, validation) })
}

/// Returns the reason why a custom resource does not match its schema, or `None` if it matches. Returns `None` for
/// objects of other kinds.
fn malformed(kind: &Kind, object: &Json) -> Option<String> {
    let named = object.text("/kind");
    kind.strategy.malformed(object).filter(|_| named == kind.kind)
}

/// Removes the fields that a custom resource's schema does not declare, and returns a finding for each removed field.
/// Also removes nulls, but returns no findings for them. Does not change objects of another group or kind.
fn unknown(kind: &Kind, object: &mut Json) -> Vec<StrictFinding> {
    let text = |name: &str| object[name].text("");
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    if (text("kind"), group) != (&kind.kind, &kind.group) {
        return Vec::new();
    }
    let unknown = kind.strategy.prune(object);
    kind.strategy.drop_nulls(object);
    unknown.into_iter().map(StrictFinding::Unknown).collect()
}

fn warnings(findings: &[StrictFinding], validation: FieldValidation) -> Vec<String> {
    match validation {
        FieldValidation::Ignore => Vec::new(),
        _ => findings.iter().map(ToString::to_string).collect(),
    }
}

/// A decoded patch that can be applied to objects.
pub struct Patcher<'a> {
    kind: &'a Arc<Kind>,
    patch: Outcome<PatchInput>,
    manager: &'a Writer<'a>,
    subresource: Subresource,
    warnings: Mutex<Vec<String>>,
}

enum PatchInput {
    Apply { source: Json, findings: Vec<StrictFinding> },
    Patch(PatchBody),
}

impl<'a> Patcher<'a> {
    /// Decodes a patch. If the patch is invalid, only [`make`](Self::make) returns an error, because the error for a
    /// missing object takes precedence.
    pub fn new(
        kind: &'a Arc<Kind>,
        patch_kind: PatchKind,
        body: RawBody,
        manager: &'a Writer<'a>,
        subresource: Subresource,
    ) -> Self {
        let patch = match patch_kind {
            PatchKind::Json => PatchBody::json(&body.bytes).map(PatchInput::Patch).map_err(patch_failure),
            PatchKind::Merge => {
                let validated = manager.options.field_validation != FieldValidation::Ignore;
                PatchBody::merge(&body.bytes, validated).map(PatchInput::Patch).map_err(patch_failure)
            }
            PatchKind::Strategic => PatchBody::strategic(&body.bytes).map(PatchInput::Patch).map_err(patch_failure),
            PatchKind::Apply => match body.content {
                BodyContent::Yaml(Ok((source, findings))) => match source {
                    source @ (Json::Object(_) | Json::Null) => Ok(PatchInput::Apply { source, findings }),
                    other => Err(Failure::bad_request(format!(
                        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} \
                         into Go value of type map[string]interface {{}}",
                        other.type_name()
                    ))),
                },
                BodyContent::Yaml(Err(why)) => Err(Failure::bad_request(format!("error decoding YAML: {why}"))),
                BodyContent::Json | BodyContent::Protobuf => Err(Failure::internal("an apply patch that is not YAML")),
            },
        };
        Self { kind, patch, manager, subresource, warnings: Mutex::new(Vec::new()) }
    }

    /// Applies the patch and returns the patched object with `apiVersion` and `kind`.
    pub fn make(&self, live: Option<&Json>) -> Outcome<Json> {
        match &self.patch {
            Err(failure) => Err(failure.clone()),
            Ok(PatchInput::Apply { source, findings }) => self.apply(live, source, findings),
            Ok(PatchInput::Patch(patch)) => {
                let live = live.ok_or_else(|| Failure::not_found(&self.kind.resource(), ""))?;
                self.patch(live, patch)
            }
        }
    }

    /// Returns the configuration in a server-side apply, or null for other patch types.
    pub fn source(&self) -> Outcome<&Json> {
        match &self.patch {
            Ok(PatchInput::Apply { source, .. }) => Ok(source),
            Ok(PatchInput::Patch(_)) => Ok(&Json::Null),
            Err(failure) => Err(failure.clone()),
        }
    }

    fn apply(&self, live: Option<&Json>, source: &Json, findings: &[StrictFinding]) -> Outcome<Json> {
        let applied = self.manager.apply(self.kind, live, source, self.subresource)?;
        let validation = self.manager.options.field_validation;
        if validation == FieldValidation::Strict
            && let Some(words) = schema::strict_decoding_error(findings)
        {
            let words = words.trim_start_matches("strict decoding error: ");
            return Err(Failure::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: {words}"
            )));
        }
        self.warn(findings);
        let Some(schema) = self.kind.schema() else { return Ok(applied) };
        let mut decoded = schema.read(applied).map_err(|why| {
            // Go writes the core group as an empty name before the slash.
            let core = if self.kind.group.is_empty() { "/" } else { "" };
            let (named, gvk) = (self.qualified_name(source), format!("{core}{}", self.kind.gvk()));
            let why = why.to_string();
            let origin = if why.starts_with("illegal base64") { "error decoding from json: " } else { "" };
            let why = format!("unable to convert unstructured object to {gvk}: {origin}{why}");
            Failure::plain(500, format!("failed to convert new object ({named}; {gvk}) to proper version: {why}"))
        })?;
        if let Some(why) = self.kind.strategy.unconvertible(&decoded.object) {
            let (named, gvk) = (self.qualified_name(source), self.kind.gvk());
            return Err(Failure::plain(500, format!("failed to convert to unversioned ({named}; {gvk}): {why}")));
        }
        self.kind.strategy.prune(&mut decoded.object);
        Ok(decoded.object)
    }

    fn patch(&self, live: &Json, patch: &PatchBody) -> Outcome<Json> {
        let Some(schema) = self.kind.schema() else { return Err(Failure::no_such_resource()) };
        let mut patched = patch.apply(live, &schema).map_err(patch_failure)?;
        // Apply the patch again for the text of an error, because most patches need no text.
        let patch_text = || match patch {
            PatchBody::Strategic(_) => patch.display_text(),
            PatchBody::Json(_) | PatchBody::Merge(_) => match patch.apply(live, &schema) {
                Ok(patched) => patch.patched_text(&patched, &schema),
                Err(_) => patch.display_text(),
            },
        };
        let invalid = |why: String| {
            let error = FieldError::invalid_text("patch", &patch_text(), why);
            Failure::invalid_named("", "", "", FieldErrors::from([error]))
        };
        self.check_types(patch, &mut patched, &invalid)?;
        let mut decoded = schema.read(patched).map_err(|error| {
            let misfit = patch.misfit(live, &schema);
            invalid(misfit.unwrap_or_else(|| error.to_string()))
        })?;
        if let Some(why) = malformed(self.kind, &decoded.object) {
            return Err(invalid(why));
        }
        // kube-apiserver decodes the result of a strategic patch before it converts the result to another version. For
        // other patch types, kube-apiserver converts the result while it decodes it.
        let unconvertible = self.kind.strategy.unconvertible(&decoded.object);
        if let Some(why) = unconvertible.clone().filter(|_| !matches!(patch, PatchBody::Strategic(_))) {
            return Err(invalid(why));
        }
        let mut findings = patch.findings().to_vec();
        findings.append(&mut decoded.findings);
        findings.extend(unknown(self.kind, &mut decoded.object));
        if self.manager.options.field_validation == FieldValidation::Strict
            && let Some(why) = schema::strict_decoding_error(&findings)
        {
            return Err(invalid(why));
        }
        self.warn(&findings);
        match unconvertible {
            Some(why) => Err(Failure::plain(500, why)),
            None => Ok(decoded.object),
        }
    }

    fn check_types(&self, patch: &PatchBody, patched: &mut Json, invalid: &dyn Fn(String) -> Failure) -> Outcome<()> {
        let api_version = self.kind.api_version();
        let Some(members) = patched.as_object_mut() else {
            return Err(invalid(schema::not_an_object_message(patched)));
        };
        let text = |name: &str| members[name].text("").to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if self.kind.needs_types() {
            if kind.is_empty() {
                return Err(invalid("Object 'Kind' is missing in the patched object".into()));
            }
            if version.is_empty() {
                return Err(Failure::internal("apiVersion must be specified in the patched object"));
            }
            return Ok(());
        }
        let wrong = |found: &str, wanted: &str| !found.is_empty() && found != wanted;
        let read_by_name = !matches!(patch, PatchBody::Strategic(_));
        if read_by_name && (wrong(&version, &api_version) || wrong(&kind, &self.kind.kind)) {
            return Err(invalid(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        members.insert("apiVersion", api_version.into());
        members.insert("kind", self.kind.kind.as_str().into());
        Ok(())
    }

    /// Stores the warnings about a patch. Stores nothing if the conversion of the live object failed, because the
    /// response then has no warnings.
    fn warn(&self, findings: &[StrictFinding]) {
        if self.manager.requester().webhooks().is_some_and(WebhookCalls::lacks_conversion) {
            return;
        }
        let warnings = warnings(findings, self.manager.options.field_validation);
        *self.warnings.lock() = warnings;
    }

    fn qualified_name(&self, object: &Json) -> String {
        let text = |name: &str| object.text(&format!("/metadata/{name}"));
        format!("{}/{}", text("namespace"), text("name"))
    }

    /// Returns the warnings for the client.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().clone()
    }
}

/// The error message for a patch that cannot be applied. As in kube-apiserver, the message does not contain a reason.
const INAPPLICABLE: &str = "the server rejected our request due to an error in our request";

fn patch_failure(error: PatchError) -> Failure {
    match error {
        PatchError::BadRequest(why) => Failure::bad_request(why),
        PatchError::TooLarge(why) => Failure::new(413, Reason::RequestEntityTooLarge, why),
        PatchError::Inapplicable(_) | PatchError::TestFailed(_) => {
            Failure::new(422, Reason::Invalid, INAPPLICABLE).with(StatusDetails::default())
        }
        PatchError::Excessive(why) => Failure::new(422, Reason::Invalid, why).with(StatusDetails::default()),
        PatchError::Directive(why) => Failure::plain(500, why),
    }
}

//! Decodes request bodies into objects and reports unknown and duplicate fields.

use pintle_json::{Json, Map};
use serde_json::Error;

use super::fields::zero;
use super::reader::Reader;
use super::sink::{shape, take, take_json};
use super::whole::{TypeMeta, Whole};
use super::{Schema, Yaml, protobuf, yaml};
use crate::decoded::{BodyError, Decoded};
use crate::finding::StrictFinding;

/// The format of a request body.
#[derive(Clone, Copy, Debug)]
pub enum BodyFormat<'a> {
    /// JSON text.
    Json,
    /// YAML text, as the result of [`read_yaml`](super::read_yaml).
    Yaml(&'a Yaml),
    /// Protobuf, which only built-in kinds support.
    Protobuf,
}

/// The version and kind that the request URL specifies for the object.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The version in the form `version` or `group/version`.
    pub api_version: &'a str,
    /// The schema of the kind.
    pub schema: &'a Schema,
}

/// Decodes a request body into an object.
///
/// - For a built-in kind, a missing apiVersion or kind is filled in, and unknown fields are dropped. The
///   returned object contains exactly the fields and number formats that Go's JSON encoder would write.
/// - For a custom resource, only the metadata gets defaults and loses unknown fields. If the kind in the body differs from the expected
///   kind, validation reports the error later. The caller must check the version with [`check_version`].
///
/// Unknown and duplicate fields are reported in document order. The request's `fieldValidation` option determines
/// whether the server ignores these fields, sends warnings or returns an error. [`strict_error`] returns this error.
///
/// # Errors
///
/// Fails if the body is not an object of the expected kind. The server responds to all these errors with status 400.
pub fn decode(body: &[u8], format: BodyFormat<'_>, expected: &Expected<'_>) -> Result<Decoded, BodyError> {
    let schema = expected.schema;
    let kind = schema.kind();
    let unrecognized = |why: String| {
        BodyError::Unrecognized(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let syntax =
        |why: String| unrecognized(format!("couldn't get version/kind; json parse error: {why} ({})", excerpt(body)));
    let broken = |error: Error| syntax(error.to_string());
    let (mut reader, mut type_meta) = (Reader::of(schema), TypeMeta::new());
    let whole = Whole { reader: &mut reader, schema, type_meta: Some(&mut type_meta) };
    let (object, mut findings) = match format {
        BodyFormat::Json => (take_json(body, whole).map_err(syntax)?, Vec::new()),
        BodyFormat::Yaml(Ok((node, findings))) => (take(node, whole).map_err(broken)?, findings.clone()),
        BodyFormat::Yaml(Err(why)) => {
            // kube-apiserver reports its YAML parser's error without the prefix `yaml::CONVERSION`.
            let why = why.strip_prefix(yaml::CONVERSION).unwrap_or(why);
            return Err(unrecognized(format!("{why} ({})", excerpt(body))));
        }
        BodyFormat::Protobuf => {
            let object = protobuf::decode(body, (expected.api_version, kind)).map_err(BodyError::Unrecognized)?;
            (take(&object, whole).map_err(broken)?, Vec::new())
        }
    };
    let mut members = match object {
        Json::Object(members) => members,
        Json::Null => empty_members(schema),
        other => {
            return Err(syntax(format!("json: cannot unmarshal {} into Go value of type {TYPE_META}", shape(&other))));
        }
    };
    // An error in `apiVersion` or `kind` takes precedence over errors in other values.
    let version = type_meta.api_version.text(&mut reader).map_err(syntax)?;
    let body_kind = type_meta.kind.text(&mut reader).map_err(syntax)?;
    // A custom resource's body must contain its kind. The body of a built-in kind may omit the kind, but must not contain a different kind.
    match schema.is_custom() {
        true if body_kind.is_empty() => {
            let text = String::from_utf8_lossy(body);
            return Err(unrecognized(format!("Object 'Kind' is missing in '{text}' ({})", excerpt(body))));
        }
        true => {}
        false => check_kind(&version, &body_kind, expected)?,
    }
    let found = reader.findings().map_err(|error| match error {
        BodyError::Value(why) => BodyError::Value(handled(expected, &why)),
        other => other,
    })?;
    findings.extend(found);
    let version = if version.is_empty() && !schema.is_custom() { expected.api_version.into() } else { version };
    let body_kind = if body_kind.is_empty() { kind.into() } else { body_kind };
    members.insert("apiVersion", version.into());
    members.insert("kind", body_kind.into());
    Ok(Decoded { object: Json::Object(members), findings })
}

/// Returns the members that Go's JSON encoder writes for an object without any set field.
fn empty_members(schema: &Schema) -> Map {
    match zero(schema.root()) {
        Json::Object(members) if !schema.is_custom() => members,
        _ => Map::new(),
    }
}

/// Returns the error for a patch whose result is not an object.
pub fn no_type_meta(patched: &Json) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type {TYPE_META}",
        shape(patched)
    )
}

/// Returns the message of the 400 response to a request with `fieldValidation=Strict`,
/// or `None` if the body has no unknown or duplicate fields.
pub fn strict_error(findings: &[StrictFinding], expected: &Expected<'_>) -> Option<String> {
    strict_words(findings).map(|words| handled(expected, &words))
}

/// Returns the same text as [`strict_error`] without the kind at the start. kube-apiserver uses this form in errors about patches.
pub fn strict_words(findings: &[StrictFinding]) -> Option<String> {
    let is_of_yaml =
        |finding: &&StrictFinding| matches!(finding, StrictFinding::Other(text) if text.starts_with("line "));
    let (of_yaml, others): (Vec<_>, Vec<_>) = findings.iter().partition(is_of_yaml);
    let lines: String = of_yaml.iter().map(|finding| format!("\n  {finding}")).collect();
    let of_yaml = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{lines}"));
    let all: Vec<_> = of_yaml.into_iter().chain(others.iter().map(ToString::to_string)).collect();
    (!all.is_empty()).then(|| format!("strict decoding error: {}", all.join(", ")))
}

/// Returns the first bytes of a body for an error message. The bytes are hexadecimal digits, unless the body looks like JSON.
pub(crate) fn excerpt(body: &[u8]) -> String {
    const MAX_BYTES: usize = 30;
    if body.is_empty() {
        return "<empty>".into();
    }
    let start = &body[..body.len().min(MAX_BYTES)];
    let more = if body.len() > MAX_BYTES { " ..." } else { "" };
    match start.first() {
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        _ => format!("{}{more}", start.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

const TYPE_META: &str =
    "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// Checks the version and kind in the body for a built-in kind. The expected version or kind replaces an empty version or kind.
///
/// # Errors
///
/// Returns kube-apiserver's error if the version or the kind is not as expected.
fn check_kind(version: &str, kind: &str, expected: &Expected<'_>) -> Result<(), BodyError> {
    let version_or = if version.is_empty() { expected.api_version } else { version };
    let kind_or = if kind.is_empty() { expected.schema.kind() } else { kind };
    if (version_or, kind_or) == (expected.api_version, expected.schema.kind()) {
        return Ok(());
    }
    let same_kind = kind_or == expected.schema.kind();
    if same_kind && (Schema::knows(version_or, kind_or) || is_no_longer_served(version_or)) {
        return Err(other_version(version_or, expected.api_version));
    }
    if Schema::knows(version_or, kind_or) {
        let name = |version: &str, kind: &str| format!("{}.{kind}", version.rsplit('/').next().unwrap_or_default());
        let why = format!(
            "converting ({}) to ({}): unknown conversion",
            name(version_or, kind_or),
            name(expected.api_version, expected.schema.kind())
        );
        return Err(BodyError::OtherKind(format!(
            "{kind_or} in version {:?} cannot be handled as a {}: {why}",
            version_or.rsplit('/').next().unwrap_or_default(),
            expected.schema.kind()
        )));
    }
    Err(BodyError::OtherKind(format!(
        "no kind {kind_or:?} is registered for version {version_or:?} in scheme {SCHEME:?}"
    )))
}

const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Returns `true` if kube-apiserver no longer serves a version but still registers its types.
fn is_no_longer_served(version: &str) -> bool {
    const VERSIONS: [&str; 20] = [
        "apps/v1beta1",
        "apps/v1beta2",
        "extensions/v1beta1",
        "autoscaling/v2beta1",
        "autoscaling/v2beta2",
        "batch/v1beta1",
        "policy/v1beta1",
        "networking.k8s.io/v1beta1",
        "discovery.k8s.io/v1beta1",
        "events.k8s.io/v1beta1",
        "coordination.k8s.io/v1beta1",
        "rbac.authorization.k8s.io/v1beta1",
        "rbac.authorization.k8s.io/v1alpha1",
        "storage.k8s.io/v1beta1",
        "scheduling.k8s.io/v1beta1",
        "authentication.k8s.io/v1beta1",
        "authorization.k8s.io/v1beta1",
        "admissionregistration.k8s.io/v1beta1",
        "apiextensions.k8s.io/v1beta1",
        "flowcontrol.apiserver.k8s.io/v1beta3",
    ];
    VERSIONS.contains(&version)
}

/// Checks that a decoded object has the expected version.
///
/// # Errors
///
/// Fails if the object has a version other than `expected`. The server responds
/// with status 400, after it has reported unknown and duplicate fields.
pub fn check_version(found: &str, expected: &str) -> Result<(), BodyError> {
    if found == expected { Ok(()) } else { Err(other_version(found, expected)) }
}

fn other_version(found: &str, expected: &str) -> BodyError {
    BodyError::OtherKind(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}

/// Returns the error that a body "cannot be handled as" an object of the expected kind.
pub fn handled(expected: &Expected<'_>, why: &str) -> String {
    let kind = expected.schema.kind();
    let version = expected.api_version.rsplit('/').next().unwrap_or_default();
    format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}")
}

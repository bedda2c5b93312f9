//! Decodes request bodies into objects and reports unknown and duplicate fields.

use pintle_json::{Json, Map};

use super::go_zero::zero;
use super::object_sink::{ObjectSink, TypeMeta};
use super::reader::Reader;
use super::sink::{feed, feed_json};
use super::{Schema, Yaml, protobuf, yaml};
use crate::decoded::{BodyError, Decoded};
use crate::finding::StrictFinding;

/// The format of a request body.
#[derive(Clone, Copy, Debug)]
pub enum BodyFormat<'a> {
    /// JSON text.
    Json,
    /// YAML that [`read_yaml`](super::read_yaml) has parsed.
    Yaml(&'a Yaml),
    /// Protobuf, which is supported only for built-in kinds.
    Protobuf,
}

/// The version and kind that the request URL specifies.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The version in the form `version` or `group/version`.
    pub api_version: &'a str,
    /// The schema of the kind.
    pub schema: &'a Schema,
}

/// Decodes a request body into an object.
///
/// - For a built-in kind, `decode` fills in a missing apiVersion or kind, and drops unknown fields. The returned
///   object has exactly the fields and number formats that Go's JSON encoder would write.
/// - For a custom resource, `decode` fills in defaults and drops unknown fields only inside `metadata`. The kind in the
///   body may differ from the expected kind, because the validation checks the kind later. The caller must check the
///   version with [`check_version`], which also rejects a missing version.
///
/// Unknown and duplicate fields are reported in document order, with two exceptions: duplicate YAML keys come first,
/// and unknown metadata fields of a custom resource come last. The `fieldValidation` option of the request determines
/// whether the server ignores the reported fields, sends warnings or returns the error of [`strict_error`].
///
/// # Errors
///
/// Returns an error if the body is not an object of the expected kind. The server responds to every error with status
/// 400.
pub fn decode(body: &[u8], format: BodyFormat<'_>, expected: &Expected<'_>) -> Result<Decoded, BodyError> {
    let body = RequestBody { bytes: body, format, expected };
    body.complete(body.read()?)
}

/// The end of Go's error message for a number that does not fit into a float.
const FLOAT: &str = "into Go value of type float64";

struct RequestBody<'a> {
    bytes: &'a [u8],
    format: BodyFormat<'a>,
    expected: &'a Expected<'a>,
}

/// The object in the body, before its apiVersion and kind are checked and defaulted.
struct ReadObject {
    members: Map,
    api_version: String,
    kind: String,
    reader: Reader,
    /// The findings of the YAML parser. The reader contains the findings that are not from the YAML parser.
    yaml_findings: Vec<StrictFinding>,
}

impl RequestBody<'_> {
    fn read(&self) -> Result<ReadObject, BodyError> {
        let Expected { api_version, schema } = *self.expected;
        // kube-apiserver decodes a custom resource in a single step, so such an error is about the whole object.
        let syntax_error = |why: String| {
            if schema.is_custom() && why.ends_with(FLOAT) {
                BodyError::Value(cannot_be_handled(self.expected, &why))
            } else {
                self.syntax_error(&why)
            }
        };
        let (mut reader, mut type_meta) = (Reader::new(schema), TypeMeta::new());
        let sink = ObjectSink { reader: &mut reader, schema, type_meta: Some(&mut type_meta) };
        let mut yaml_findings = Vec::new();
        let object = match self.format {
            BodyFormat::Json => feed_json(self.bytes, sink).map_err(syntax_error)?,
            BodyFormat::Yaml(Ok((node, findings))) => {
                yaml_findings.clone_from(findings);
                feed(node, sink).map_err(|error| syntax_error(error.to_string()))?
            }
            BodyFormat::Yaml(Err(why)) => {
                // kube-apiserver reports the error of its YAML parser without the prefix.
                let why = why.strip_prefix(yaml::YAML_CONVERSION).unwrap_or(why);
                return Err(self.unrecognized(&format!("{why} ({})", excerpt(self.bytes))));
            }
            BodyFormat::Protobuf => {
                if let Some(why) = protobuf::missing_message(self.bytes) {
                    return Err(self.unrecognized(&format!("{why} ({})", excerpt(self.bytes))));
                }
                let object = protobuf::decode(self.bytes, (api_version, schema.kind()));
                let object = object.map_err(BodyError::Unrecognized)?;
                feed(&object, sink).map_err(|error| syntax_error(error.to_string()))?
            }
        };
        let members = match object {
            Json::Object(members) => members,
            Json::Null => empty_members(schema),
            other => return Err(syntax_error(not_an_object(&other))),
        };
        // An error in `apiVersion` or `kind` takes precedence over errors in other values.
        let api_version = type_meta.api_version.text(&mut reader).map_err(syntax_error)?;
        let kind = type_meta.kind.text(&mut reader).map_err(syntax_error)?;
        Ok(ReadObject { members, api_version, kind, reader, yaml_findings })
    }

    /// Checks the `apiVersion` and `kind` of the object. Sets `apiVersion` and `kind` if they are missing.
    fn complete(&self, object: ReadObject) -> Result<Decoded, BodyError> {
        let Expected { api_version, schema } = *self.expected;
        let ReadObject { mut members, api_version: actual_version, kind: actual_kind, reader, yaml_findings } = object;
        // The body of a custom resource must contain a kind. The body of a built-in kind may omit the kind, but must
        // not contain a different kind.
        if !schema.is_custom() {
            check_kind(&actual_version, &actual_kind, self.expected)?;
        } else if actual_kind.is_empty() {
            let text = String::from_utf8_lossy(self.bytes);
            return Err(self.unrecognized(&format!("Object 'Kind' is missing in '{text}' ({})", excerpt(self.bytes))));
        }
        let mut findings = yaml_findings;
        findings.extend(reader.into_findings().map_err(|error| match error {
            BodyError::Value(why) => BodyError::Value(cannot_be_handled(self.expected, &why)),
            other => other,
        })?);
        let fills_version = actual_version.is_empty() && !schema.is_custom();
        members.insert("apiVersion", if fills_version { api_version.into() } else { actual_version.into() });
        members.insert("kind", if actual_kind.is_empty() { schema.kind().into() } else { actual_kind.into() });
        Ok(Decoded { object: Json::Object(members), findings })
    }

    fn syntax_error(&self, why: &str) -> BodyError {
        self.unrecognized(&format!("couldn't get version/kind; json parse error: {why} ({})", excerpt(self.bytes)))
    }

    fn unrecognized(&self, why: &str) -> BodyError {
        let kind = self.expected.schema.kind();
        BodyError::Unrecognized(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    }
}

fn empty_members(schema: &Schema) -> Map {
    match zero(schema.root()) {
        Json::Object(members) if !schema.is_custom() => members,
        _ => Map::new(),
    }
}

/// Returns the error message for a patch whose result is not an object.
pub fn not_an_object_message(patched: &Json) -> String {
    format!("couldn't get version/kind; json parse error: {}", not_an_object(patched))
}

fn not_an_object(value: &Json) -> String {
    /// The Go type into which kube-apiserver first decodes a body, in the form in which Go prints the type.
    const TYPE_META: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    format!("json: cannot unmarshal {} into Go value of type {TYPE_META}", value.type_name())
}

/// Returns the error message for a request with `fieldValidation=Strict`, or `None` if the body has no unknown or
/// duplicate fields.
pub fn strict_error(findings: &[StrictFinding], expected: &Expected<'_>) -> Option<String> {
    strict_decoding_error(findings).map(|error| cannot_be_handled(expected, &error))
}

/// Returns the text of [`strict_error`] without the kind at the start. kube-apiserver uses this text in errors about
/// patches.
///
/// As in kube-apiserver, the text lists all duplicate YAML keys, one per line, before all other findings.
pub fn strict_decoding_error(findings: &[StrictFinding]) -> Option<String> {
    let is_yaml_key = |finding: &&StrictFinding| matches!(finding, StrictFinding::DuplicateYamlKey(_));
    let (yaml_keys, others): (Vec<_>, Vec<_>) = findings.iter().partition(is_yaml_key);
    let lines: String = yaml_keys.iter().map(|finding| format!("\n  {finding}")).collect();
    let yaml_error = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{lines}"));
    let errors: Vec<_> = yaml_error.into_iter().chain(others.iter().map(ToString::to_string)).collect();
    (!errors.is_empty()).then(|| format!("strict decoding error: {}", errors.join(", ")))
}

/// Returns the first bytes of a body for an error message. The bytes are shown as text if the body looks like JSON, and
/// in hexadecimal otherwise.
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

/// Checks the version and kind in the body of a built-in kind. An empty version or kind is valid.
///
/// # Errors
///
/// Returns kube-apiserver's error message if the version or the kind does not match `expected`.
fn check_kind(version: &str, kind: &str, expected: &Expected<'_>) -> Result<(), BodyError> {
    let actual_version = if version.is_empty() { expected.api_version } else { version };
    let actual_kind = if kind.is_empty() { expected.schema.kind() } else { kind };
    if (actual_version, actual_kind) == (expected.api_version, expected.schema.kind()) {
        return Ok(());
    }
    let same_kind = actual_kind == expected.schema.kind();
    if same_kind && (Schema::knows(actual_version, actual_kind) || is_removed(actual_version, expected)) {
        return Err(other_version(actual_version, expected.api_version));
    }
    let version = |of: &str| of.rsplit('/').next().unwrap_or_default().to_owned();
    let is_list = actual_kind.strip_suffix("List").is_some_and(|item| Schema::knows(actual_version, item));
    let why =
        if Schema::knows(actual_version, actual_kind) || is_list || (actual_version, actual_kind) == ("v1", "List") {
            // The message contains the kind's internal type, which is in the Go package of the API group.
            let package = expected.api_version.split_once('/').map_or("core", |(group, _)| group);
            let package = package.split('.').next().unwrap_or_default();
            let (from, to) = (version(actual_version), expected.schema.kind());
            format!("converting ({from}.{actual_kind}) to ({package}.{to}): unknown conversion")
        } else {
            format!("no kind {actual_kind:?} is registered for version {actual_version:?} in scheme {SCHEME:?}")
        };
    Err(BodyError::OtherKind(format!(
        "{actual_kind} in version {:?} cannot be handled as a {}: {why}",
        version(actual_version),
        expected.schema.kind()
    )))
}

/// The name of kube-apiserver's scheme in error messages, which is a line in its source code.
const SCHEME: &str = "pkg/runtime/scheme.go:111";

/// Returns `true` if kube-apiserver no longer serves the version, but its scheme still contains the expected kind in
/// this version.
fn is_removed(version: &str, expected: &Expected<'_>) -> bool {
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
    let group = |version: &str| version.split_once('/').map_or("", |(group, _)| group).to_owned();
    VERSIONS.contains(&version)
        && match (version, expected.schema.kind()) {
            ("apps/v1beta1", "DaemonSet" | "ReplicaSet") => false,
            ("extensions/v1beta1", kind) => {
                ["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet"].contains(&kind)
            }
            // Events are served in the core group and in the group events.k8s.io.
            ("events.k8s.io/v1beta1", "Event") => true,
            _ => group(version) == group(expected.api_version),
        }
}

/// Checks that the version of a decoded object is the expected version.
///
/// # Errors
///
/// Returns an error if the versions differ. The server responds with status 400, but reports unknown and duplicate
/// fields first.
pub fn check_version(actual: &str, expected: &str) -> Result<(), BodyError> {
    if actual == expected { Ok(()) } else { Err(other_version(actual, expected)) }
}

fn other_version(actual: &str, expected: &str) -> BodyError {
    BodyError::OtherKind(format!(
        "the API version in the data ({actual}) does not match the expected API version ({expected})"
    ))
}

/// Returns the error message that a body "cannot be handled as" an object of the expected kind.
pub fn cannot_be_handled(expected: &Expected<'_>, why: &str) -> String {
    let kind = expected.schema.kind();
    let version = expected.api_version.rsplit('/').next().unwrap_or_default();
    format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}")
}

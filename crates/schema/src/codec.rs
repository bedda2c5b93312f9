//! Decodes the body of a request into an object, and finds unknown and duplicate fields.

use pintle_json::{Json, Map};
use serde_json::Error;

use super::fields::zero;
use super::reader::Reader;
use super::sink::{shape, take, take_json};
use super::whole::{TypeMeta, Whole};
use super::{BodyError, Decoded, Schema, StrictFinding, Yaml, protobuf, yaml};

/// The language of a body.
#[derive(Clone, Copy, Debug)]
pub enum BodyFormat<'a> {
    /// JSON.
    Json,
    /// YAML, and what [`read_yaml`](super::read_yaml) made of it.
    Yaml(&'a Yaml),
    /// Protobuf, which only the built-in kinds have.
    Protobuf,
}

/// What the URL says of the object that a body holds.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// `version` or `group/version`.
    pub api_version: &'a str,
    /// The schema of the kind.
    pub schema: &'a Schema,
}

/// Reads the body of a request as an object.
///
/// Of a built-in kind, apiVersion and kind are filled in where they are missing, fields that the type does not know are dropped,
/// and the object comes as Go writes it. Of a custom resource, only the metadata are treated so; that its kind is another one is
/// left for validation to say, and its version is for the caller to hold against the expected one, by [`check_version`]. The
/// findings are in the order of the document; what they lead to is `fieldValidation`'s choice, see [`strict_error`].
///
/// # Errors
///
/// The body is no object of that kind, all answered with 400.
pub fn decode(body: &[u8], format: BodyFormat<'_>, expected: &Expected<'_>) -> Result<Decoded, BodyError> {
    let schema = expected.schema;
    let kind = schema.kind();
    let unrecognized = |why: String| {
        BodyError::Unrecognized(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let syntax =
        |why: String| unrecognized(format!("couldn't get version/kind; json parse error: {why} ({})", excerpt(body)));
    let broken = |error: Error| syntax(error.to_string());
    let (mut reader, mut says) = (Reader::of(schema), TypeMeta::new());
    let whole = Whole { reader: &mut reader, schema, says: Some(&mut says) };
    let (object, mut findings) = match format {
        BodyFormat::Json => (take_json(body, whole).map_err(syntax)?, Vec::new()),
        BodyFormat::Yaml(Ok((node, findings))) => (take(node, whole).map_err(broken)?, findings.clone()),
        BodyFormat::Yaml(Err(why)) => {
            // A server says what its reader says, without the words of the tools that turn YAML into JSON.
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
        Json::Null => nothing(schema),
        other => {
            return Err(syntax(format!("json: cannot unmarshal {} into Go value of type {TYPE_META}", shape(&other))));
        }
    };
    // What the body says of itself comes before what is wrong with its values.
    let version = says.api_version.text(&mut reader).map_err(syntax)?;
    let named = says.kind.text(&mut reader).map_err(syntax)?;
    match schema.is_custom() {
        true if named.is_empty() => {
            let text = String::from_utf8_lossy(body);
            return Err(unrecognized(format!("Object 'Kind' is missing in '{text}' ({})", excerpt(body))));
        }
        true => {}
        false => check_kind(&version, &named, expected)?,
    }
    let found = reader.findings().map_err(|error| match error {
        BodyError::Value(why) => BodyError::Value(handled(expected, &why)),
        other => other,
    })?;
    findings.extend(found);
    let version = if version.is_empty() && !schema.is_custom() { expected.api_version.into() } else { version };
    let named = if named.is_empty() { kind.into() } else { named };
    members.insert("apiVersion", version.into());
    members.insert("kind", named.into());
    Ok(Decoded { object: Json::Object(members), findings })
}

/// An object in which nothing is set.
fn nothing(schema: &Schema) -> Map {
    match zero(schema.root()) {
        Json::Object(members) if !schema.is_custom() => members,
        _ => Map::new(),
    }
}

/// What is wrong with a patched object that is no object.
pub fn no_type_meta(patched: &Json) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type {TYPE_META}",
        shape(patched)
    )
}

/// The message of the 400 that `fieldValidation=Strict` answers with, if there is anything to tell.
pub fn strict_error(findings: &[StrictFinding], expected: &Expected<'_>) -> Option<String> {
    strict_words(findings).map(|words| handled(expected, &words))
}

/// The same without the kind in front, as patches tell it.
pub fn strict_words(findings: &[StrictFinding]) -> Option<String> {
    let is_of_yaml =
        |finding: &&StrictFinding| matches!(finding, StrictFinding::Other(text) if text.starts_with("line "));
    let (of_yaml, others): (Vec<_>, Vec<_>) = findings.iter().partition(is_of_yaml);
    let lines: String = of_yaml.iter().map(|finding| format!("\n  {finding}")).collect();
    let of_yaml = (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:{lines}"));
    let all: Vec<_> = of_yaml.into_iter().chain(others.iter().map(ToString::to_string)).collect();
    (!all.is_empty()).then(|| format!("strict decoding error: {}", all.join(", ")))
}

/// The start of a body as messages show it: text if it looks like JSON, hexadecimal digits otherwise.
pub(crate) fn excerpt(body: &[u8]) -> String {
    const MOST: usize = 30;
    if body.is_empty() {
        return "<empty>".into();
    }
    let start = &body[..body.len().min(MOST)];
    let more = if body.len() > MOST { " ..." } else { "" };
    match start.first() {
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        _ => format!("{}{more}", start.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

const TYPE_META: &str =
    "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

fn check_kind(version: &str, kind: &str, expected: &Expected<'_>) -> Result<(), BodyError> {
    let version_or = if version.is_empty() { expected.api_version } else { version };
    let kind_or = if kind.is_empty() { expected.schema.kind() } else { kind };
    if (version_or, kind_or) == (expected.api_version, expected.schema.kind()) {
        return Ok(());
    }
    let same_kind = kind_or == expected.schema.kind();
    if same_kind && (Schema::knows(version_or, kind_or) || once_served(version_or)) {
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

/// Versions that are no longer served, though their types are known.
fn once_served(version: &str) -> bool {
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

/// Whether an object that was read is of the expected version.
///
/// # Errors
///
/// It is of another one; answered with 400, after all findings.
pub fn check_version(found: &str, expected: &str) -> Result<(), BodyError> {
    if found == expected { Ok(()) } else { Err(other_version(found, expected)) }
}

fn other_version(found: &str, expected: &str) -> BodyError {
    BodyError::OtherKind(format!(
        "the API version in the data ({found}) does not match the expected API version ({expected})"
    ))
}

/// Why a body cannot be read, told with the kind that was expected.
pub fn handled(expected: &Expected<'_>, why: &str) -> String {
    let kind = expected.schema.kind();
    let version = expected.api_version.rsplit('/').next().unwrap_or_default();
    format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}")
}

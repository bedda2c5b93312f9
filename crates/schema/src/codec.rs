//! Decodes the body of a request into an object, and finds unknown and duplicate fields.

use pintle_json::Json;

use super::convert::convert;
use super::{BodyError, Decoded, Node, Schema, StrictFinding, Yaml};

/// The language of a body.
#[derive(Clone, Debug)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML, and what [`read_yaml`](super::read_yaml) made of it.
    Yaml(Yaml),
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
pub fn decode(body: &[u8], format: Format, expected: &Expected<'_>) -> Result<Decoded, BodyError> {
    let schema = expected.schema;
    let kind = schema.kind();
    let unrecognized = |why: String| {
        BodyError::Unrecognized(format!("the object provided is unrecognized (must be of type {kind}): {why}"))
    };
    let syntax =
        |why: String| unrecognized(format!("couldn't get version/kind; json parse error: {why} ({})", excerpt(body)));
    let (node, mut findings) = match format {
        Format::Json => (Node::from_json(body).map_err(syntax)?, Vec::new()),
        Format::Yaml(read) => read.map_err(syntax)?,
    };
    let members = match node {
        Node::Map(members) => members,
        Node::Null => Vec::new(),
        other => {
            return Err(syntax(format!("json: cannot unmarshal {} into Go value of type {TYPE_META}", other.shape())));
        }
    };
    let (version, members) = type_meta(members, "apiVersion").map_err(syntax)?;
    let (named, members) = type_meta(members, "kind").map_err(syntax)?;
    let (version, named) = (version.unwrap_or_default(), named.unwrap_or_default());
    match schema.is_custom() {
        true if named.is_empty() => {
            let text = String::from_utf8_lossy(body);
            return Err(unrecognized(format!("Object 'Kind' is missing in '{text}' ({})", excerpt(body))));
        }
        true => {}
        false => check_kind(&version, &named, expected)?,
    }
    let mut members = members;
    let version = if version.is_empty() && !schema.is_custom() { expected.api_version.into() } else { version };
    let named = if named.is_empty() { kind.into() } else { named };
    members.push(("apiVersion".into(), Node::String(version)));
    members.push(("kind".into(), Node::String(named)));
    let decoded = convert(Node::Map(members), schema).map_err(|error| match error {
        BodyError::Value(why) => BodyError::Value(handled(expected, &why)),
        other => other,
    })?;
    findings.extend(decoded.findings);
    Ok(Decoded { object: decoded.object, findings })
}

/// What is wrong with a patched object that is no object.
pub fn no_type_meta(patched: Json) -> String {
    let shape = Node::from(patched).shape();
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {shape} into Go value of type {TYPE_META}"
    )
}

/// The message of the 400 that `fieldValidation=Strict` answers with, if there is anything to tell.
pub fn strict_error(findings: &[StrictFinding], expected: &Expected<'_>) -> Option<String> {
    strict_words(findings).map(|words| handled(expected, &words))
}

/// The same without the kind in front, as patches tell it.
pub fn strict_words(findings: &[StrictFinding]) -> Option<String> {
    let told = |finding: &StrictFinding| match finding {
        StrictFinding::Other(text) if text.starts_with("line ") => format!("yaml: unmarshal errors:\n  {text}"),
        finding => finding.to_string(),
    };
    let all: Vec<_> = findings.iter().map(told).collect();
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

/// Takes out what an object says of its own type; Go finds it in any letter case.
type Members = Vec<(String, Node)>;

fn type_meta(members: Members, name: &str) -> Result<(Option<String>, Members), String> {
    let mut found = None;
    let mut rest = Vec::with_capacity(members.len() + 1);
    for (key, node) in members {
        match node {
            node if !key.eq_ignore_ascii_case(name) => rest.push((key, node)),
            Node::String(text) => {
                // The second of two keeps its place, to be found there.
                if found.replace(text.clone()).is_some() {
                    rest.push((name.into(), Node::String(text)));
                }
            }
            Node::Null => {}
            other => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go struct field .{name} of type string",
                    other.shape()
                ));
            }
        }
    }
    Ok((found, rest))
}

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

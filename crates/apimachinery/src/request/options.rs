//! Request options from the query or body of a request, and their validation.

use pintle_json::Json;
use pintle_meta::{FieldValidation, PropagationPolicy, ResourceVersionMatch};

use super::query::Query;
use crate::failure::{Failure, Outcome, quoted};
use crate::validate::{FieldError, FieldErrorType, FieldErrors, is_printable};

/// The options of POST, PUT and PATCH requests.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// The field manager, or an empty string if the server derives its name from the user agent.
    pub field_manager: String,
    pub field_validation: FieldValidation,
    /// Whether an apply request takes over fields that other field managers own.
    pub force: bool,
}

/// The way in which a request writes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Post,
    Put,
    Patch,
    Apply,
}

impl WriteOptions {
    pub fn parse(query: &Query, how: How) -> Outcome<Self> {
        let mut errors = FieldErrors::default();
        let force = query.flag("force");
        let manager = query.text("fieldManager");
        match how {
            How::Apply if manager.is_empty() => {
                errors.push(FieldError::required("fieldManager", "is required for apply patch"));
            }
            How::Patch if force.is_some() => {
                errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
            }
            _ => (),
        }
        errors.extend(manager_errors(manager));
        let (dry_run, error) = dry_run(query.all("dryRun"));
        errors.extend(error);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(not_supported("fieldValidation", &quoted(other), r#""", "Ignore", "Strict", "Warn""#));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            let kind = match how {
                How::Post => "CreateOptions",
                How::Put => "UpdateOptions",
                How::Patch | How::Apply => "PatchOptions",
            };
            return Err(Failure::invalid_options(kind, errors));
        }
        Ok(Self { dry_run, field_manager: manager.into(), field_validation, force: force.unwrap_or(false) })
    }
}

/// The options of list, watch and `deletecollection` requests.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub resource_version: String,
    pub version_match: Option<ResourceVersionMatch>,
    /// The maximum number of objects per page of a list, or `None` for no limit.
    pub limit: Option<u64>,
    pub continue_token: String,
    pub watch: bool,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    /// The timeout in seconds, which can be negative.
    pub timeout: Option<i64>,
    match_text: Option<String>,
}

impl ListOptions {
    /// Parses the query. To validate the combination of options, call [`check`](Self::check) afterwards.
    pub fn parse(query: &Query) -> Outcome<Self> {
        let limit = query.integer("limit")?;
        let timeout = query.integer("timeoutSeconds")?;
        let match_text = query.first("resourceVersionMatch").filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Self {
            label_selector: query.text("labelSelector").into(),
            field_selector: query.text("fieldSelector").into(),
            resource_version: query.text("resourceVersion").into(),
            version_match: match match_text.as_deref() {
                Some("Exact") => Some(ResourceVersionMatch::Exact),
                Some("NotOlderThan") => Some(ResourceVersionMatch::NotOlderThan),
                _ => None,
            },
            limit: limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0),
            continue_token: query.text("continue").into(),
            watch: query.flag("watch").unwrap_or(false),
            allow_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: query.flag("sendInitialEvents"),
            timeout,
            match_text,
        })
    }

    /// Returns an error if the combination of options is invalid.
    pub fn check(&self) -> Outcome<()> {
        let errors = if self.watch { self.watch_errors() } else { self.list_errors() };
        if errors.is_empty() { Ok(()) } else { Err(Failure::invalid_options("ListOptions", errors)) }
    }

    fn watch_errors(&self) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let not_older_than = self.version_match == Some(ResourceVersionMatch::NotOlderThan);
        // The rules for initial events also apply to a watch without a resource version, because it starts with the
        // current objects.
        let implied = self.send_initial_events.is_none()
            && self.match_text.is_none()
            && matches!(self.resource_version.as_str(), "" | "0");
        if self.send_initial_events.is_some() && !not_older_than {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if let Some(text) = &self.match_text {
            if self.send_initial_events.is_none() {
                errors.push(FieldError::forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if !not_older_than {
                errors.push(not_supported("resourceVersionMatch", &quoted(text), r#""NotOlderThan""#));
            }
        }
        if (self.match_text.is_some() || implied) && !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        errors
    }

    fn list_errors(&self) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if let Some(text) = &self.match_text {
            if self.resource_version.is_empty() {
                errors.push(FieldError::forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(FieldError::forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if self.version_match.is_none() {
                let known = r#""Exact", "NotOlderThan", """#;
                errors.push(not_supported("resourceVersionMatch", &quoted(text), known));
            }
            if self.version_match == Some(ResourceVersionMatch::Exact) && self.resource_version == "0" {
                errors.push(FieldError::forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }
}

/// The options of DELETE requests.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub propagation: Option<PropagationPolicy>,
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Parses the query of a DELETE request without a body.
    pub fn from_query(query: &Query) -> Outcome<Self> {
        let policy = query.first("propagationPolicy").filter(|text| !text.is_empty());
        let owned = |name| query.first(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let options = Self {
            grace_seconds: query.integer("gracePeriodSeconds")?,
            uid: owned("uid"),
            resource_version: owned("resourceVersion"),
            orphan_dependents: query.flag("orphanDependents"),
            ..Self::default()
        };
        options.checked(policy, query.all("dryRun"))
    }

    /// Parses the body of a DELETE request, whose options replace the options in the query.
    pub fn from_body(body: &Json) -> Outcome<Self> {
        if body.is_null() {
            return Ok(Self::default());
        }
        let object = body.as_object().ok_or_else(|| {
            let what = body.type_name();
            let why = format!("json: cannot unmarshal {what} into Go value of type {TYPE_META}");
            Failure::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
        })?;
        let text = |value: Option<&Json>, field: &str, of: &str| match value {
            None | Some(Json::Null) => Ok(None),
            Some(Json::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(wrong_type(other, field, of)),
        };
        if let Some(kind) = text(object.get("kind"), "DeleteOptions.kind", "string")?
            && !matches!(kind.as_str(), "" | "DeleteOptions")
        {
            let version = text(object.get("apiVersion"), "DeleteOptions.apiVersion", "string")?.unwrap_or_default();
            return Err(Failure::bad_request(other_kind(&version, &kind)));
        }
        let grace_seconds = match object.get("gracePeriodSeconds") {
            None | Some(Json::Null) => None,
            Some(value) => {
                let wrong = || wrong_type(value, "DeleteOptions.gracePeriodSeconds", "int64");
                Some(value.as_i64().ok_or_else(wrong)?)
            }
        };
        let preconditions = match object.get("preconditions") {
            None | Some(Json::Null) => None,
            Some(Json::Object(conditions)) => Some(conditions),
            Some(other) => return Err(wrong_type(other, "DeleteOptions.preconditions", "v1.Preconditions")),
        };
        let orphan_dependents = match object.get("orphanDependents") {
            None | Some(Json::Null) => None,
            Some(Json::Bool(orphan)) => Some(*orphan),
            Some(other) => return Err(wrong_type(other, "DeleteOptions.orphanDependents", "bool")),
        };
        let runs = match object.get("dryRun") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(runs)) => runs
                .iter()
                .map(|run| run.as_str().ok_or_else(|| wrong_type(run, "DeleteOptions.dryRun", "string")))
                .collect::<Outcome<_>>()?,
            Some(other) => return Err(wrong_type(other, "DeleteOptions.dryRun", "[]string")),
        };
        let precondition = |name: &str| preconditions.and_then(|conditions| conditions.get(name));
        let options = Self {
            grace_seconds,
            uid: text(precondition("uid"), "Preconditions.preconditions.uid", "types.UID")?,
            resource_version: text(
                precondition("resourceVersion"),
                "Preconditions.preconditions.resourceVersion",
                "string",
            )?,
            orphan_dependents,
            ..Self::default()
        };
        let policy =
            text(object.get("propagationPolicy"), "DeleteOptions.propagationPolicy", "v1.DeletionPropagation")?;
        options.checked(policy.as_deref(), runs.into_iter())
    }

    fn checked<'a>(mut self, policy: Option<&str>, runs: impl Iterator<Item = &'a str>) -> Outcome<Self> {
        let mut errors = FieldErrors::default();
        if let Some(text) = policy {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid_text_if(self.orphan_dependents.is_some(), "propagationPolicy", text, why);
            self.propagation = match text {
                "Background" => Some(PropagationPolicy::Background),
                "Foreground" => Some(PropagationPolicy::Foreground),
                "Orphan" => Some(PropagationPolicy::Orphan),
                other => {
                    let known = r#""Foreground", "Background", "Orphan", "nil""#;
                    errors.push(not_supported("propagationPolicy", &quoted(other), known));
                    None
                }
            };
        }
        let (dry_run, error) = dry_run(runs);
        self.dry_run = dry_run;
        errors.extend(error);
        if errors.is_empty() { Ok(self) } else { Err(Failure::invalid_options("DeleteOptions", errors)) }
    }
}

/// The Go type into which kube-apiserver first decodes a body.
const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

fn wrong_type(value: &Json, field: &str, of: &str) -> Failure {
    let what = match value {
        Json::Number(number) => format!("number {number}"),
        other => other.type_name().to_owned(),
    };
    Failure::bad_request(format!("json: cannot unmarshal {what} into Go struct field {field} of type {of}"))
}

/// Returns the error message for a body that is not a DeleteOptions object. The message depends on whether
/// kube-apiserver registers the kind.
fn other_kind(version: &str, kind: &str) -> String {
    match (version, kind) {
        ("v1", "Status" | "APIVersions" | "APIGroup" | "APIGroupList" | "APIResourceList") => {
            format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
        }
        _ => format!(
            "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
            quoted(kind),
            quoted(version)
        ),
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>) -> (bool, Option<FieldError>) {
    let values: Vec<_> = values.collect();
    let error = values.iter().any(|value| *value != "All").then(|| {
        let shown: Vec<_> = values.iter().map(|value| quoted(value)).collect();
        not_supported("dryRun", &format!("[{}]", shown.join(",")), r#""All""#)
    });
    (!values.is_empty(), error)
}

fn manager_errors(manager: &str) -> FieldErrors {
    const LONGEST: usize = 128;
    let mut errors = FieldErrors::default();
    if manager.len() > LONGEST {
        let why = format!("Too long: may not be more than {LONGEST} bytes");
        errors.push(FieldError::new(FieldErrorType::TooLong, "fieldManager", why));
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let why =
            format!("Invalid value: {}: invalid character U+{:04X} (at position {at})", quoted(manager), c as u32);
        errors.push(FieldError::new(FieldErrorType::Invalid, "fieldManager", why));
    }
    errors
}

fn not_supported(field: &str, shown: &str, known: &str) -> FieldError {
    FieldError::new(
        FieldErrorType::NotSupported,
        field,
        format!("Unsupported value: {shown}: supported values: {known}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(failure: &Failure) -> Vec<(&str, &str)> {
        let details = failure.status.details.as_ref().expect("details");
        details.causes.iter().map(|cause| (cause.field.as_str(), cause.reason.as_str())).collect()
    }

    #[test]
    fn invalid_combinations_of_list_options_are_rejected() {
        let check = |query: &str, expected: &[(&str, &str)]| {
            let outcome = ListOptions::parse(&Query::parse(query)).and_then(|options| options.check());
            let failure = outcome.as_ref().err();
            assert_eq!(failure.map(causes).unwrap_or_default(), expected, "{query}");
        };
        let forbidden = ("resourceVersionMatch", "FieldValueForbidden");
        let unknown = ("resourceVersionMatch", "FieldValueNotSupported");
        check("resourceVersion=0&resourceVersionMatch=Exact", &[forbidden]);
        check("resourceVersionMatch=Exact", &[forbidden]);
        check("resourceVersionMatch=x&resourceVersion=1", &[unknown]);
        check("resourceVersionMatch=x", &[forbidden, unknown]);
        check("resourceVersionMatch=Exact&resourceVersion=5&continue=x", &[forbidden]);
        check("sendInitialEvents=false", &[("sendInitialEvents", "FieldValueForbidden")]);
        check("resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=1", &[]);
        check("watch=1&sendInitialEvents=true", &[forbidden]);
        check("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", &[forbidden, unknown]);
        check("watch=1&resourceVersionMatch=NotOlderThan", &[forbidden]);
        check("watch=1&resourceVersionMatch=Exact", &[forbidden, unknown]);
        check("watch=1&continue=x", &[forbidden]);
        check("watch=1&continue=x&resourceVersion=5", &[]);
        check("watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", &[]);
    }

    #[test]
    fn apply_needs_a_manager_and_only_apply_may_force() {
        let parse = |query: &str, write| WriteOptions::parse(&Query::parse(query), write);
        let failure = parse("", How::Apply).unwrap_err();
        assert_eq!(causes(&failure), [("fieldManager", "FieldValueRequired")]);
        let failure = parse("force=false", How::Patch).unwrap_err();
        assert_eq!(causes(&failure), [("force", "FieldValueForbidden")]);
        assert!(parse("force=true", How::Post).is_ok());
        assert!(parse("fieldManager=m&force=1", How::Apply).unwrap().force);
    }

    #[test]
    fn delete_body_ignores_unknown_fields_and_rejects_bad_values() {
        let read = |body: Json| DeleteOptions::from_body(&body);
        let body = pintle_json::json!({"kind": "DeleteOptions", "preconditions": {"uid": "u"}, "extra": 1});
        assert_eq!(read(body).unwrap().uid.as_deref(), Some("u"));
        assert_eq!(read(pintle_json::json!({"kind": "Pod"})).unwrap_err().code(), 400);
        assert_eq!(read(pintle_json::json!([])).unwrap_err().code(), 400);
        assert_eq!(read(pintle_json::json!({"gracePeriodSeconds": "x"})).unwrap_err().code(), 400);
        assert_eq!(read(pintle_json::json!({"propagationPolicy": ""})).unwrap_err().code(), 422);
    }
}

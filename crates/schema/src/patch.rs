//! JSON patches, merge patches and strategic merge patches.
//!
//! A patch body is parsed once and can be applied to any number of objects. If Go's libraries differ from the RFCs,
//! this module matches Go, because clients depend on Go's behavior.

use pintle_json::Json;
use thiserror::Error;

use crate::Schema;
use crate::convert::read_verbatim;
use crate::finding::StrictFinding;

mod check;
mod json;
mod merge_patch;
mod order;
mod ordered;
pub(crate) mod patched_text;
mod restore;
mod strategic;

pub use json::JsonPatch;
pub use merge_patch::merge;
pub use strategic::strategic;

/// The error of a rejected patch. Each variant corresponds to an HTTP response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// Status 400: the body is not a patch of this type.
    #[error("{0}")]
    BadRequest(String),
    /// Status 413: the patch has too many operations.
    #[error("{0}")]
    TooLarge(String),
    /// Status 422 without details: the patch cannot be applied to this object. The message is the same as in
    /// kube-apiserver's patch library.
    #[error("{0}")]
    Inapplicable(String),
    /// Status 422 without details: a `test` operation of a JSON patch failed. The string is the path of the tested
    /// value.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    /// Status 422 without details: applying the patch exceeds a cost limit.
    #[error("{0}")]
    Excessive(String),
    /// Status 500 without a reason: the directives in the patch are invalid.
    #[error("{0}")]
    Directive(String),
}

/// A patch from a request body.
#[derive(Clone, Debug)]
pub enum PatchBody {
    /// A JSON patch (RFC 6902).
    Json(JsonPatch),
    /// A merge patch (RFC 7386).
    Merge(MergeBody),
    /// A strategic merge patch, which merges lists by the keys in the schema.
    Strategic(MergeBody),
}

/// The body of a merge patch or a strategic merge patch.
#[derive(Clone, Debug)]
pub struct MergeBody {
    value: Json,
    findings: Vec<StrictFinding>,
}

impl PatchBody {
    /// Parses a JSON patch.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is not a list of operations, or if the list is too long.
    pub fn json(body: &[u8]) -> Result<Self, PatchError> {
        JsonPatch::read(body).map(Self::Json)
    }

    /// Parses the JSON patch of a MutatingAdmissionPolicy. In such a patch, a `test` operation with the value null
    /// always fails. In a patch from [`json`](Self::json), this operation succeeds if the tested value is absent.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`json`](Self::json).
    pub fn json_of_policy(body: &[u8]) -> Result<Self, PatchError> {
        Ok(Self::Json(JsonPatch::read(body)?.with_differing_nulls()))
    }

    /// Parses a merge patch. `validated` must be `false` for requests with `fieldValidation=Ignore`.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is not an object. If `validated` is `false`, the body may also be a list, which
    /// replaces the whole object.
    pub fn merge(body: &[u8], validated: bool) -> Result<Self, PatchError> {
        const NONE: &str = "Invalid JSON Patch";
        let bad = |why: String| {
            if validated {
                PatchError::BadRequest(format!("error decoding patch: {why}"))
            } else {
                PatchError::BadRequest(NONE.into())
            }
        };
        let (value, findings) = read_verbatim(body).map_err(bad)?;
        match &value {
            Json::Null => Err(PatchError::BadRequest(NONE.into())),
            Json::Object(_) => Ok(Self::Merge(MergeBody { value, findings })),
            Json::Array(_) if !validated => Ok(Self::Merge(MergeBody { value, findings })),
            other => Err(bad(no_object(other))),
        }
    }

    /// Parses a strategic merge patch. A null body is a patch that changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is not an object or null.
    pub fn strategic(body: &[u8]) -> Result<Self, PatchError> {
        let (value, findings) = read_verbatim(body).map_err(PatchError::BadRequest)?;
        match &value {
            Json::Object(_) | Json::Null => Ok(Self::Strategic(MergeBody { value, findings })),
            other => Err(PatchError::BadRequest(no_object(other))),
        }
    }

    /// Returns `true` if the patch is a JSON patch without operations.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Json(patch) if patch.is_empty())
    }

    /// Returns the duplicate and unknown members of the patch body.
    pub fn findings(&self) -> &[StrictFinding] {
        match self {
            Self::Json(patch) => patch.findings(),
            Self::Merge(body) | Self::Strategic(body) => &body.findings,
        }
    }

    /// Returns an error message if the result of a strategic merge patch does not match its type. The message differs
    /// from the messages for request bodies, because kube-apiserver does not decode the result from text. Returns
    /// `None` for valid results and for other patch types.
    pub fn misfit(&self, object: &Json, schema: &Schema) -> Option<String> {
        let Self::Strategic(_) = self else { return None };
        restore::misfit(&self.apply(object, schema).ok()?, schema.root())
    }

    /// Returns the patched object.
    ///
    /// # Errors
    ///
    /// See [`PatchError`].
    pub fn apply(&self, object: &Json, schema: &Schema) -> Result<Json, PatchError> {
        match self {
            Self::Json(patch) => patch.apply(object),
            Self::Merge(body) => Ok(merge(object, &body.value)),
            Self::Strategic(body) if body.value.is_null() => Ok(object.clone()),
            Self::Strategic(body) => strategic(object, &body.value, schema),
        }
    }

    /// Returns the text of the patched object for error messages, with its members in the order in which Go's patch
    /// library writes them.
    pub fn patched_text(&self, patched: &Json, schema: &Schema) -> String {
        if schema.is_custom() {
            return patched.to_string();
        }
        match self {
            Self::Json(patch) => patched_text::patched_text(patched, &patch.touched(), schema.root()),
            Self::Merge(body) | Self::Strategic(body) => {
                patched_text::patched_text(patched, &body.value, schema.root())
            }
        }
    }

    /// Returns the text of the patch for error messages.
    pub fn display_text(&self) -> String {
        match self {
            Self::Json(patch) => patch.display_text(),
            Self::Merge(body) => body.value.to_string(),
            Self::Strategic(body) => go_text(&body.value),
        }
    }
}

fn no_object(found: &Json) -> String {
    format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", found.type_name())
}

/// Formats a value like Go's `%v`.
pub fn go_text(value: &Json) -> String {
    match value {
        Json::Null => "<nil>".into(),
        Json::String(text) => text.to_string(),
        Json::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Json::Object(members) => {
            let members: Vec<_> = members.iter().map(|(name, value)| format!("{name}:{}", go_text(value))).collect();
            format!("map[{}]", members.join(" "))
        }
        other => other.to_string(),
    }
}

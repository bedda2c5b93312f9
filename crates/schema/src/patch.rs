//! The patches that are no apply: JSON patch, merge patch, strategic merge patch.
//!
//! Each has a type that reads the body, and lays it over objects as often as needed. What Go's libraries do differently from the
//! RFCs is done here as well: clients have come to rest on it.

use std::fmt;

use pintle_json::Json;

use crate::convert::read_verbatim;
use crate::sink::shape;
use crate::{Schema, StrictFinding};

mod json;
mod merge_patch;
mod order;
mod restore;
mod strategic;

pub use json::JsonPatch;
pub use merge_patch::merge;
pub use strategic::strategic;

/// Why a patch fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// 400: the body is no such patch.
    BadRequest(String),
    /// 413: it is too long.
    TooLarge(String),
    /// 422 without details: it cannot be applied to this object.
    Inapplicable,
    /// 422 without details: it could be, but the outcome would be more than this server does.
    Excessive(String),
    /// 500 without a reason: its directives make no sense.
    Directive(String),
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadRequest(text) | Self::TooLarge(text) | Self::Excessive(text) | Self::Directive(text) => {
                f.write_str(text)
            }
            Self::Inapplicable => f.write_str("the server rejected our request due to an error in our request"),
        }
    }
}

impl std::error::Error for PatchError {}

/// A patch that has been read.
#[derive(Clone, Debug)]
pub enum PatchBody {
    /// RFC 6902.
    Json(JsonPatch),
    /// RFC 7386.
    Merge(MergeBody),
    /// Kubernetes' own merge patch, which knows how lists are keyed.
    Strategic(MergeBody),
}

/// A patch that is an object.
#[derive(Clone, Debug)]
pub struct MergeBody {
    value: Json,
    findings: Vec<StrictFinding>,
}

impl PatchBody {
    /// Reads a JSON patch.
    ///
    /// # Errors
    ///
    /// It is no list of operations, or a list of too many.
    pub fn json(body: &[u8]) -> Result<Self, PatchError> {
        JsonPatch::read(body).map(Self::Json)
    }

    /// Reads a merge patch.
    ///
    /// # Errors
    ///
    /// It is no object. Where fields are not validated, a list is one: it takes the place of the whole object.
    pub fn merge(body: &[u8], validated: bool) -> Result<Self, PatchError> {
        const NONE: &str = "Invalid JSON Patch";
        let bad = |why: String| match validated {
            true => PatchError::BadRequest(format!("error decoding patch: {why}")),
            false => PatchError::BadRequest(NONE.into()),
        };
        let (value, findings) = read_verbatim(body).map_err(bad)?;
        match &value {
            Json::Null => Err(PatchError::BadRequest(NONE.into())),
            Json::Object(_) => Ok(Self::Merge(MergeBody { value, findings })),
            Json::Array(_) if !validated => Ok(Self::Merge(MergeBody { value, findings })),
            other => Err(bad(no_object(other))),
        }
    }

    /// Reads a strategic merge patch; null is one that changes nothing.
    ///
    /// # Errors
    ///
    /// It is no object.
    pub fn strategic(body: &[u8]) -> Result<Self, PatchError> {
        let (value, findings) = read_verbatim(body).map_err(PatchError::BadRequest)?;
        match &value {
            Json::Object(_) | Json::Null => Ok(Self::Strategic(MergeBody { value, findings })),
            other => Err(PatchError::BadRequest(no_object(other))),
        }
    }

    /// Members that stand twice, or that are not known, in the patch itself.
    pub fn findings(&self) -> &[StrictFinding] {
        match self {
            Self::Json(patch) => patch.findings(),
            Self::Merge(body) | Self::Strategic(body) => &body.findings,
        }
    }

    /// Why the patched object does not fit its types, where a real server tells it in other words than of a body: after a strategic patch,
    /// which it does not read from text again. `None` if it fits, or if the words are the same.
    pub fn misfit(&self, object: &Json, schema: &Schema) -> Option<String> {
        let Self::Strategic(_) = self else { return None };
        restore::misfit(&self.apply(object, schema).ok()?, schema.root())
    }

    /// The patched object.
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

    /// The patch as messages show it.
    pub fn told(&self) -> String {
        match self {
            Self::Json(patch) => patch.told(),
            Self::Merge(body) => body.value.to_string(),
            Self::Strategic(body) => go_text(&body.value),
        }
    }
}

fn no_object(found: &Json) -> String {
    format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", shape(found))
}

/// A value as Go's `%v` shows it.
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

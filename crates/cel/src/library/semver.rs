//! Functions for semantic versions.

use std::sync::Arc;

use super::{Function, Returned};
use crate::error::Failure;
use crate::meter::Meter;
use crate::opaque::Opaque;
use crate::opaque::semver::{Version, normalized, parse};
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "semver" => semver,
        "isSemver" => is_semver,
        "major" => |_, args| number(args, |version| version.parts.major),
        "minor" => |_, args| number(args, |version| version.parts.minor),
        "patch" => |_, args| number(args, |version| version.parts.patch),
        _ => return None,
    })
}

fn number<'a>(args: &[Value<'a>], part: impl FnOnce(&Version) -> u64) -> Returned<'a> {
    match args {
        // As in Go, the conversion to a signed number wraps around on overflow.
        [Value::Opaque(Opaque::Semver(version))] => Some(Ok(Value::Int(part(version) as i64))),
        _ => None,
    }
}

fn parsed(args: &[Value<'_>]) -> Option<Result<Version, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Some(parse(text)),
        [Value::String(text), Value::Bool(true)] => Some(normalized(text).and_then(|text| parse(&text))),
        _ => None,
    }
}

fn semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let version = parsed(args)?;
    Some(version.map(|version| Value::Opaque(Opaque::Semver(Arc::new(version)))).map_err(Failure::new))
}

fn is_semver<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    parsed(args).map(|version| Ok(Value::Bool(version.is_ok())))
}

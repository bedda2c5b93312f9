//! The functions that expressions can call.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::types::Type;

/// The signatures of all functions. The type checker tries the signatures of a function in this order.
const SIGNATURES: &str = include_str!("functions.txt");
/// The heading in `functions.txt` for functions that are available only in mutating policies.
const PATCHES: &str = "patches";

#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: &'static str,
    /// `true` if the function is a method. The first argument of a method is the receiver.
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) params: Vec<&'static str>,
    /// `true` if the function is available only in environments with the patch types of mutating policies.
    pub(crate) for_patches: bool,
}

static FUNCTIONS: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut functions = HashMap::<_, Vec<Overload>>::new();
    let mut section = "";
    for line in SIGNATURES.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            section = title;
        } else if let Some((name, overload)) = overload(line, section == PATCHES) {
            functions.entry(name).or_default().push(overload);
        }
    }
    functions
});

pub(crate) fn overloads(name: &str) -> &'static [Overload] {
    FUNCTIONS.get(name).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(any(test, fuzzing))]
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static [Overload])> {
    let sorted: std::collections::BTreeMap<_, _> = FUNCTIONS.iter().collect();
    sorted.into_iter().map(|(name, overloads)| (*name, overloads.as_slice()))
}

/// Parses a signature of the form `id = (receiver).name(arguments) -> result`.
fn overload(line: &'static str, for_patches: bool) -> Option<(&'static str, Overload)> {
    let (id, signature) = line.split_once(" = ")?;
    let (call, result) = signature.rsplit_once(" -> ")?;
    let (receiver, call) = match call.strip_prefix('(') {
        Some(rest) => rest.split_once(").").map(|(receiver, call)| (Some(receiver), call))?,
        None => (None, call),
    };
    let open = call.find('(')?;
    let (name, args) = (&call[..open], call[open..].strip_prefix('(')?.strip_suffix(')')?);
    let mut params = Vec::new();
    let args = receiver.into_iter().chain(parts(args)).map(|text| parse(text, &mut params)).collect();
    let result = parse(result, &mut params);
    Some((name, Overload { id, member: receiver.is_some(), args, result, params, for_patches }))
}

fn parts(text: &'static str) -> Vec<&'static str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (index, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    parts.extend((!last.is_empty()).then_some(last));
    parts
}

fn parse(text: &'static str, params: &mut Vec<&'static str>) -> Type {
    if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let mut inner: Vec<_> = parts(inner).into_iter().map(|part| parse(part, params)).collect();
        let last = inner.pop().unwrap_or(Type::Error);
        return match (name, inner.pop()) {
            ("list", None) => Type::list(last),
            ("optional", None) => Type::optional(last),
            ("type", None) => Type::type_of(last),
            ("map", Some(keys)) => Type::map(keys, last),
            _ => Type::Error,
        };
    }
    match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "IP" | "CIDR" => Type::Opaque(format!("net.{text}").into()),
        "URL" | "Quantity" | "Semver" => Type::Object(format!("kubernetes.{text}").into()),
        "Format" => Type::Object("kubernetes.NamedFormat".into()),
        "Authorizer" | "PathCheck" | "GroupCheck" | "ResourceCheck" | "Decision" => {
            Type::Object(format!("kubernetes.authorization.{text}").into())
        }
        param => {
            if !params.contains(&param) {
                params.push(param);
            }
            Type::Param(param.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signature_is_read() {
        let lines = SIGNATURES.lines().filter(|line| !line.starts_with('#')).count();
        let known: usize = FUNCTIONS.values().map(Vec::len).sum();
        assert_eq!(known, lines);
        for overload in FUNCTIONS.values().flatten() {
            let types = overload.args.iter().chain([&overload.result]);
            assert!(types.into_iter().all(|part| *part != Type::Error), "{}", overload.id);
            assert!(overload.params.iter().all(|param| param.len() == 1), "{}: {:?}", overload.id, overload.params);
        }
    }
}

//! A test that the time to process an object grows linearly with the length of each of its lists and maps.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, Map, json};
use pintle_kinds::Kind;
use pintle_schema::{Field, Scalar, Type};
use rustix::time::{ClockId, clock_gettime};

use crate::strategies::{EmptyCluster, context};

#[test]
#[ignore = "slow: the step `slow` of `cargo xtask ci --full` runs it"]
fn work_grows_linearly_with_each_list_and_map() {
    // For four times as much input, a linear algorithm takes four times as long, and a quadratic algorithm takes
    // sixteen times as long. Do not compare times that are shorter than `LEAST`.
    const MOST: u32 = 9;
    const LEAST: Duration = Duration::from_millis(10);
    const TRIES: usize = 4;
    let mut seen = HashSet::new();
    let mut slow = Vec::new();
    for kind in pintle_builtin::kinds().kinds() {
        let Some(schema) = kind.schema() else { continue };
        let mut paths = Vec::new();
        let prefix = format!("{} {}", kind.api_version(), kind.kind);
        collect(schema.root(), &prefix, &mut Vec::new(), &mut paths, &mut seen);
        for path in paths {
            for filling in FILLINGS {
                let [part, whole] = [1_000, 4_000].map(|count| long(schema.root(), &path, count, filling));
                let (mut parts, mut wholes) = (Duration::MAX, Duration::MAX);
                let is_linear = (0..TRIES).any(|_| {
                    wholes = wholes.min(effort(kind, &whole));
                    wholes < LEAST || {
                        parts = parts.min(effort(kind, &part));
                        wholes <= parts * MOST
                    }
                });
                if !is_linear {
                    let (path, (depth, text)) = (path.join("."), filling);
                    let filled = format!("depth {depth}, texts such as {:?}", text(1));
                    slow.push(format!("{prefix} {path} ({filled}): {parts:?}, and {wholes:?} for four times as many"));
                }
            }
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

/// How generated objects are filled: the depth of the filled structs, and the form of the strings.
type Filling = (usize, fn(usize) -> String);

const FILLINGS: [Filling; 4] =
    [(1, |at| format!("x{at}")), (3, |at| format!("x{at}")), (1, |at| format!("fd00::{at:x}")), (1, |_| "x".into())];

/// Returns the total time of a create, an update and a status update.
fn effort(kind: &Kind, object: &Json) -> Duration {
    let context = context(&EmptyCluster);
    // In the old object, all lists have the reverse order.
    let mut old = object.clone();
    reverse(&mut old);
    let mut new = object.clone();
    let start = cpu_time();
    kind.set_defaults(&mut new);
    kind.prepare_for_create(&context, &mut new);
    let _ = kind.strategy.admit(&EmptyCluster, &mut new, None, Subresource::None).is_ok();
    let _ = kind.strategy.allocate(&EmptyCluster, &mut new, None, Subresource::None).is_ok();
    kind.strategy.validate_create(&new);
    kind.strategy.warnings(&new, None, Subresource::None);
    kind.cells(&new, Timestamp::UNIX_EPOCH);
    for subresource in [Subresource::None, Subresource::Status] {
        let mut new = object.clone();
        kind.strategy.prepare_for_update(&context, &mut new, &old, subresource);
        kind.strategy.validate_update(&new, &old, subresource);
        kind.strategy.warnings(&new, Some(&old), subresource);
    }
    cpu_time() - start
}

fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a time")
}

fn reverse(value: &mut Json) {
    match value {
        Json::Array(items) => {
            items.reverse();
            items.iter_mut().for_each(reverse);
        }
        Json::Object(members) => members.iter_mut().for_each(|(_, value)| reverse(value)),
        _ => {}
    }
}

/// Collects the paths of all lists and maps. A field of a nested struct is visited only once for all kinds.
fn collect(ty: &Type, kind: &str, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>, seen: &mut HashSet<String>) {
    let (step, inner): (String, &Type) = match ty {
        Type::Struct { struct_type, .. } => {
            for field in &struct_type.fields {
                let owner = if path.len() < 2 { kind } else { struct_type.name };
                let is_generic = path.is_empty() && field.name == "metadata";
                if !is_generic && seen.insert(format!("{owner} {} {}", struct_type.name, field.name)) {
                    path.push(field.name.clone());
                    collect(&field.ty, kind, path, paths, seen);
                    path.pop();
                }
            }
            return;
        }
        Type::List(list) => ("[]".into(), &list.item),
        Type::Map(map) => ("{}".into(), &map.value),
        _ => return,
    };
    paths.push(path.clone());
    path.push(step);
    collect(inner, kind, path, paths, seen);
    path.pop();
}

/// Generates an object with `count` items in the list or map at `path`, and with one item in all other lists and maps.
fn long(ty: &Type, path: &[String], count: usize, filling: Filling) -> Json {
    let (depth, text) = filling;
    let Some((step, rest)) = path.split_first() else {
        let items = |ty| (0..count).map(move |at| fill(ty, at, depth, text));
        return match ty {
            Type::List(list) => items(&list.item).collect(),
            Type::Map(map) => {
                items(&map.value).enumerate().map(|(at, value)| (format!("k{at}"), value)).collect::<Map>().into()
            }
            _ => unreachable!("the path leads to a list or map"),
        };
    };
    let mut value = fill(ty, 0, 1, text);
    match ty {
        Type::Struct { struct_type, .. } => {
            let field = struct_type.field(step).expect("a known field");
            value[step.as_str()] = long(&field.ty, rest, count, filling);
        }
        Type::List(list) => value = json!([long(&list.item, rest, count, filling)]),
        Type::Map(map) => value = json!({"k": long(&map.value, rest, count, filling)}),
        _ => {}
    }
    value
}

fn fill(ty: &Type, at: usize, depth: usize, text: fn(usize) -> String) -> Json {
    let inner = |ty: &Type| fill(ty, at, depth - 1, text);
    match ty {
        Type::Any | Type::Union(_) | Type::Scalar(Scalar::Raw) => json!({}),
        Type::Scalar(Scalar::String) => text(at).into(),
        Type::Scalar(Scalar::Bool) => true.into(),
        Type::Scalar(Scalar::Quantity | Scalar::ResourceQuantity) => format!("{}", at + 1).into(),
        Type::Scalar(Scalar::Time) => "2026-01-01T00:00:00Z".into(),
        Type::Scalar(Scalar::MicroTime) => "2026-01-01T00:00:00.000000Z".into(),
        Type::Scalar(Scalar::Duration) => "1h0m0s".into(),
        Type::Scalar(Scalar::Bytes) => "AAAA".into(),
        Type::Scalar(_) => (at + 1).into(),
        Type::Struct { .. } | Type::Map(_) if depth == 0 => json!({}),
        Type::List(_) if depth == 0 => json!([]),
        Type::Struct { struct_type, .. } => {
            let is_filled = |field: &&Field| depth > 1 || matches!(field.ty, Type::Scalar(_));
            let fields = struct_type.fields.iter().filter(is_filled);
            fields.map(|field| (field.name.clone(), inner(&field.ty))).collect::<Map>().into()
        }
        Type::List(list) => json!([inner(&list.item)]),
        Type::Map(map) => json!({"k": inner(&map.value)}),
    }
}

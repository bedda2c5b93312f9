//! Warnings about valid objects: deprecated fields, fields without effect, and probable mistakes.

mod address;
mod labels;
#[cfg(test)]
mod tests;

use pintle_json::Json;
use pintle_schema::quantity;

pub(super) use address::{block, ip, load_balancer};
pub(super) use labels::{node_label, node_selector, selector_term};

/// Returns `true` if the generations of the objects differ, which means that the desired state has changed.
pub(super) fn is_new(object: &Json, old: &Json) -> bool {
    const GENERATION: &str = "/metadata/generation";
    object.at(GENERATION) != old.at(GENERATION)
}

pub(super) fn is_annotated(object: &Json, key: &str) -> bool {
    object.at("/metadata/annotations").is_some_and(|annotations| annotations.get(key).is_some())
}

/// Warns about a fractional number of bytes. `path` is the path of the map that contains `name`.
pub(super) fn fractional_bytes(amounts: Option<&Json>, name: &str, path: &str) -> Option<String> {
    const MILLI: i128 = 1_000_000;
    let text = amounts?.get(name)?.as_str()?;
    // Check the exact quantity, because the canonical form is rounded up to a multiple of 0.001.
    let fractional = quantity::nanos(text)? % (1000 * MILLI) != 0;
    let canonical = quantity::canonical(text)?;
    fractional.then(|| format!("{path}[{name}]: fractional byte value \"{canonical}\" is invalid, must be an integer"))
}

/// Warns about the storage requests and limits of a claim. `path` is the path of `spec`.
pub(super) fn claim(spec: &Json, path: &str) -> Vec<String> {
    let storage_warning = |side: &str| {
        fractional_bytes(spec.at(&format!("/resources/{side}")), "storage", &format!("{path}.resources.{side}"))
    };
    ["requests", "limits"].into_iter().filter_map(storage_warning).collect()
}

pub(super) fn ips(object: &Json, pointer: &str, path: &str) -> Vec<String> {
    let texts = object.list(pointer).enumerate();
    texts.filter_map(|(at, text)| ip(text.as_str()?, &format!("{path}[{at}]"))).collect()
}

pub(super) fn blocks(object: &Json, pointer: &str, path: &str) -> Vec<String> {
    let texts = object.list(pointer).enumerate();
    texts.flat_map(|(at, text)| block(text.as_str().unwrap_or_default(), &format!("{path}[{at}]"))).collect()
}

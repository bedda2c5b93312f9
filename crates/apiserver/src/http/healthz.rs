//! Serves `/healthz`, `/livez`, `/readyz` and `/version`.

use pintle_json::json;

use super::call::RequestHead;
use super::encode::Reply;
use crate::registry::Registry;
use pintle_storage::health::Endpoint;

pub(super) fn serve(registry: &Registry, head: &RequestHead, parts: &[String]) -> Option<Reply> {
    let (name, rest) = parts.split_first()?;
    let endpoint = match name.as_str() {
        "healthz" | "livez" => Endpoint::Alive,
        "readyz" => Endpoint::Ready,
        _ => return None,
    };
    let nothing = || Reply::text(404, "404 page not found\n");
    if head.path.ends_with('/') {
        return Some(nothing());
    }
    let mut checks = registry.health.check_all(endpoint, &registry.db);
    if rest.is_empty() {
        return Some(listing(head, name, checks));
    }
    let wanted = rest.join("/");
    Some(match checks.find(|(check, _)| *check == wanted) {
        Some((_, true)) => Reply::text(200, "ok"),
        Some((_, false)) => Reply::text(500, "internal server error: the check was set to fail or is not ready\n"),
        None => nothing(),
    })
}

/// Formats the results of all checks. Returns only `ok` if all checks pass and `verbose` is not set.
fn listing(head: &RequestHead, name: &str, checks: impl Iterator<Item = (&'static str, bool)>) -> Reply {
    let excluded: Vec<_> = head.query.all("exclude").collect();
    let (mut text, mut healthy) = (String::new(), true);
    for (check, passes) in checks {
        text.push_str(&match (excluded.contains(&check), passes) {
            (true, _) => format!("[+]{check} excluded: ok\n"),
            (false, true) => format!("[+]{check} ok\n"),
            (false, false) => format!("[-]{check} failed: reason withheld\n"),
        });
        healthy &= passes || excluded.contains(&check);
    }
    match (healthy, head.query.first("verbose").is_some()) {
        (true, false) => Reply::text(200, "ok"),
        (true, true) => Reply::text(200, text + &format!("{name} check passed\n")),
        (false, _) => Reply::text(500, text + &format!("{name} check failed\n")),
    }
}

pub(super) fn version() -> pintle_json::Json {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.1",
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
    })
}

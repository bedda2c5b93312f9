//! `/healthz`, `/livez`, `/readyz` and `/version`.

use serde_json::json;

use super::Call;
use super::encode::Reply;
use crate::registry::Registry;

const CHECKS: [&str; 4] = ["ping", "etcd", "informer-sync", "shutdown"];

/// The answer, if the path is one of these.
pub(super) fn serve(_api: &Registry, call: &Call, parts: &[String]) -> Option<Reply> {
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    match parts[..] {
        [endpoint @ ("healthz" | "livez" | "readyz"), ref rest @ ..] => {
            if call.path.ends_with('/') {
                return Some(Reply::text(404, "404 page not found\n"));
            }
            match rest {
                [] => Some(Reply::text(200, listing(call, endpoint))),
                [check] if CHECKS.contains(check) => Some(Reply::text(200, "ok")),
                _ => Some(Reply::text(404, "404 page not found\n")),
            }
        }
        _ => None,
    }
}

fn listing(call: &Call, endpoint: &str) -> String {
    if call.query.first("verbose").is_none() {
        return "ok".into();
    }
    let excluded: Vec<_> = call.query.all("exclude").collect();
    let mut text = String::new();
    for check in CHECKS {
        match excluded.contains(&check) {
            true => text.push_str(&format!("[+]{check} excluded: ok\n")),
            false => text.push_str(&format!("[+]{check} ok\n")),
        }
    }
    text.push_str(&format!("{endpoint} check passed\n"));
    text
}

/// What the server says of itself.
pub(super) fn version() -> serde_json::Value {
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

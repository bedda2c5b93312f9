//! Replaces values that differ between runs in a text, such as UUIDs, times, tokens, ports, type names and
//! revisions.

use std::sync::LazyLock;

use regex::{Captures, Regex};

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));

/// The revision in `resourceVersion=5`, `resourceVersion: 5` and `resourceVersion: "5`.
static NAMED_REVISION: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(resourceVersion(?:=|: )"?)([0-9]+)"#));

/// The other patterns and their placeholders.
static PLACEHOLDERS: LazyLock<[(Regex, &str); 6]> = LazyLock::new(|| {
    [
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+Z", "<microtime>"),
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", "<time>"),
        (r"eyJ[A-Za-z0-9_-]*\.eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+", "<jwt>"),
        // The server generates a number for the type of a custom resource.
        (r"selfType[0-9]+", "selfType<n>"),
        // In Go's error messages, the client's port precedes an arrow.
        (r"127\.0\.0\.1:[0-9]+->", "127.0.0.1:<port>->"),
        (r"(too old|Too large) resource version: [0-9]+( \(|, current: )[0-9]+", "$1 resource version: <n>$2<n>"),
    ]
    .map(|(text, placeholder)| (pattern(text), placeholder))
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

/// Replaces UUIDs, times, tokens, ports, type names and revisions with `<uuid>`, `<time>`, `<microtime>`, `<jwt>`,
/// `<port>`, `<n>`, or the result of `uid` or `revision`.
pub(crate) fn mask(
    text: &str,
    uid: impl Fn(&str) -> Option<String>,
    revision: impl Fn(u128) -> Option<String>,
) -> String {
    let uid = |found: &Captures<'_>| uid(&found[0]).unwrap_or_else(|| "<uuid>".to_owned());
    let mut text = UUID.replace_all(text, uid).into_owned();
    for (pattern, placeholder) in &*PLACEHOLDERS {
        text = pattern.replace_all(&text, *placeholder).into_owned();
    }
    let revision = |found: &Captures<'_>| {
        let name = found[2].parse().ok().and_then(&revision);
        format!("{}{}", &found[1], name.as_deref().unwrap_or(&found[2]))
    };
    NAMED_REVISION.replace_all(&text, revision).into_owned()
}

/// Returns `true` if the whole text is a lower-case UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    UUID.find(text).is_some_and(|found| found.len() == text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, masked: &str) {
        let uid = |uuid: &str| uuid.starts_with("0000").then(|| "<uid:1>".to_owned());
        let revision = |number: u128| (number == 7).then(|| "<rv:1>".to_owned());
        assert_eq!(mask(text, uid, revision), masked);
    }

    #[test]
    fn known_uuids_are_numbered_and_others_masked() {
        check("a 00000000-0000-0000-0000-000000000000.", "a <uid:1>.");
        check("a 12345678-0000-0000-0000-00000000000f", "a <uuid>");
        check("12345678-0000-0000-0000-00000000000F", "12345678-0000-0000-0000-00000000000F");
        check("é12345678-0000", "é12345678-0000");
    }

    #[test]
    fn tokens_are_masked() {
        check("no eyJhb-.eyJp_.sig1.", "no <jwt>.");
        check("eyJhb.eyJp eyJhb.xx.sig", "eyJhb.eyJp eyJhb.xx.sig");
    }

    #[test]
    fn client_ports_and_generated_type_names_are_masked() {
        check("read tcp 127.0.0.1:40000->127.0.0.1:443: EOF", "read tcp 127.0.0.1:<port>->127.0.0.1:443: EOF");
        check("selfType12, selfTypes", "selfType<n>, selfTypes");
    }

    #[test]
    fn times_are_masked_with_and_without_a_fraction() {
        check("at 2026-01-02T03:04:05Z", "at <time>");
        check("at 2026-01-02T03:04:05.123456Z!", "at <microtime>!");
        check("2026-01-02T03:04:05.Z 2026-01-02", "2026-01-02T03:04:05.Z 2026-01-02");
    }

    #[test]
    fn revisions_in_messages_are_masked() {
        check("too old resource version: 1 (99)", "too old resource version: <n> (<n>)");
        check("Too large resource version: 9, current: 5", "Too large resource version: <n>, current: <n>");
        check("resourceVersion: \"7\" resourceVersion=8", "resourceVersion: \"<rv:1>\" resourceVersion=8");
    }
}

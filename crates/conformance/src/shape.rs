//! Replaces values that differ between runs in a text, such as UUIDs, times, tokens, ports, type names and
//! revisions.

/// Replaces UUIDs, times, tokens, ports, type names and revisions with `<uuid>`, `<time>`, `<microtime>`, `<jwt>`,
/// `<port>`, `<n>`, or the result of `uid` or `revision`.
pub(crate) fn mask(
    text: &str,
    uid: impl Fn(&str) -> Option<String>,
    revision: impl Fn(u128) -> Option<String>,
) -> String {
    let text = replace(text, |rest| {
        let found = uuid(rest)?;
        Some((found.len(), uid(found).unwrap_or_else(|| "<uuid>".to_owned())))
    });
    let text = replace(&text, time);
    let text = replace(&text, jwt);
    let text = replace(&text, type_name);
    let text = replace(&text, client_port);
    let text = replace(&text, too_old);
    replace(&text, |rest| named_revision(rest, &revision))
}

/// Returns `true` if the whole text is a lower-case UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    uuid(text).is_some_and(|found| found.len() == text.len())
}

/// Scans the text once and replaces parts of it. At each position, `at` returns the length of the text to replace
/// and the replacement, or `None`.
fn replace(text: &str, at: impl Fn(&str) -> Option<(usize, String)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match at(rest) {
            Some((length, replacement)) => {
                out.push_str(&replacement);
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Returns the UUID at the start of the text, in the form `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
fn uuid(text: &str) -> Option<&str> {
    let found = text.get(..36)?;
    let fits = found.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    });
    fits.then_some(found)
}

/// Returns the length and placeholder of the time at the start of the text, in the form `dddd-dd-ddTdd:dd:dd[.d…]Z`.
fn time(text: &str) -> Option<(usize, String)> {
    const FORM: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let bytes = text.as_bytes();
    let head = bytes.get(..FORM.len())?;
    let fits = |(byte, form): (&u8, &u8)| if *form == b'd' { byte.is_ascii_digit() } else { byte == form };
    if !head.iter().zip(FORM).all(fits) {
        return None;
    }
    let tail = &bytes[FORM.len()..];
    let fraction = match tail {
        [b'.', digits @ ..] => 1 + digits.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    let closed = fraction != 1 && tail.get(fraction) == Some(&b'Z');
    let name = if fraction > 0 { "<microtime>" } else { "<time>" };
    closed.then(|| (FORM.len() + fraction + 1, name.to_owned()))
}

/// Returns the length and placeholder of the JWT at the start of the text, in the form `eyJ….eyJ….…`.
fn jwt(text: &str) -> Option<(usize, String)> {
    let is_of_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let end = text.find(|c: char| !is_of_part(c) && c != '.').unwrap_or(text.len());
    let mut parts = text[..end].splitn(3, '.');
    let (head, claims, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let signature = rest.split('.').next()?;
    let fits = head.starts_with("eyJ") && claims.starts_with("eyJ") && !signature.is_empty();
    fits.then(|| (head.len() + claims.len() + signature.len() + 2, "<jwt>".to_owned()))
}

/// Replaces the number in a type name such as `selfType5`, which is generated for a custom resource.
fn type_name(text: &str) -> Option<(usize, String)> {
    const NAME: &str = "selfType";
    let number = digits(text.strip_prefix(NAME)?)?;
    Some((NAME.len() + number.len(), format!("{NAME}<n>")))
}

/// Replaces the port in `127.0.0.1:5->`, which is the client's port in Go's error messages.
fn client_port(text: &str) -> Option<(usize, String)> {
    const HOST: &str = "127.0.0.1:";
    let after = text.strip_prefix(HOST)?;
    let port = digits(after)?;
    after[port.len()..].starts_with("->").then(|| (HOST.len() + port.len(), format!("{HOST}<port>")))
}

/// Replaces the revisions in `too old resource version: 5 (9` and `Too large resource version: 9, current: 5`.
fn too_old(text: &str) -> Option<(usize, String)> {
    let words = ["too old resource version: ", "Too large resource version: "];
    let head = words.into_iter().find(|words| text.starts_with(words))?;
    let first = digits(&text[head.len()..])?;
    let after = &text[head.len() + first.len()..];
    let middle = [" (", ", current: "].into_iter().find(|middle| after.starts_with(middle))?;
    let second = digits(&after[middle.len()..])?;
    Some((head.len() + first.len() + middle.len() + second.len(), format!("{head}<n>{middle}<n>")))
}

/// Replaces the revision in `resourceVersion=5`, `resourceVersion: 5` and `resourceVersion: "5`.
fn named_revision(text: &str, revision: impl Fn(u128) -> Option<String>) -> Option<(usize, String)> {
    let after = text.strip_prefix("resourceVersion")?;
    let after = after.strip_prefix('=').or_else(|| after.strip_prefix(": "))?;
    let after = after.strip_prefix('"').unwrap_or(after);
    let number = digits(after)?;
    let head = text.len() - after.len();
    let name = revision(number.parse().ok()?)?;
    Some((head + number.len(), format!("{}{name}", &text[..head])))
}

fn digits(text: &str) -> Option<&str> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0).then(|| &text[..length])
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

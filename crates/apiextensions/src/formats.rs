//! String formats of schemas, such as `date-time` and `uuid`.
//!
//! Each format accepts the same strings as Kubernetes' `strfmt` registry.

mod address;
mod digits;
mod duration;
mod email;
mod uri;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// The known formats, without dashes. A schema with another format causes a warning. Format names are compared
/// without dashes.
const KNOWN: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Returns `true` if the format is known for this schema type. A schema without a type counts as a string schema.
pub(crate) fn is_known(format: &str, type_name: &str) -> bool {
    match type_name {
        "" | "string" => KNOWN.contains(&&*plain_name(format)),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns `true` if the text is valid in this format. An unknown format accepts every string.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match &*plain_name(format) {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => is_base64(text),
        "cidr" => address::is_cidr(text),
        "creditcard" => digits::is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => duration::is_duration(text),
        "email" => email::is_email(text),
        "hexcolor" => is_hex_colour(text),
        "hostname" => is_hostname(text),
        "ipv4" => address::is_ipv4(text),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "isbn" => digits::is_isbn10(text) || digits::is_isbn13(text),
        "isbn10" => digits::is_isbn10(text),
        "isbn13" => digits::is_isbn13(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_label),
        "k8sshortname" => text.len() <= 63 && is_label(text),
        "mac" => address::is_mac(text),
        "rgbcolor" => is_rgb_colour(text),
        "ssn" => digits::is_social_security(text),
        "uri" => uri::is_request_uri(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        _ => true,
    }
}

fn plain_name(format: &str) -> Cow<'_, str> {
    if format.contains('-') { format.replace('-', "").into() } else { format.into() }
}

/// Returns `true` for a date-time: a date, `t`, a time without leap seconds, and a zone offset. The check ignores
/// letter case and accepts any zone offset. If the string contains a second `t`, the check ignores the text after it.
fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$").ok());
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    let in_range = |time: regex::Captures<'_>| &time[1] <= "23" && &time[2] <= "59" && &time[3] <= "59";
    is_date(day) && TIME.as_ref().and_then(|form| form.captures(time)).is_some_and(in_range)
}

fn is_date(text: &str) -> bool {
    let shape = |at: usize, byte: u8| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| shape(at, byte))
        && text.parse::<jiff::civil::Date>().is_ok()
}

/// Returns `true` for base64 with padding. The unused bits before the padding are not checked.
fn is_base64(text: &str) -> bool {
    let padding = text.len() - text.trim_end_matches('=').len();
    let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && text.bytes().take(text.len() - padding).all(in_alphabet)
}

/// Returns `true` for a host name: one or more labels, separated by dots. If a host name has several labels, the last
/// label must have at least two letters.
fn is_hostname(text: &str) -> bool {
    static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let any = r"a-zA-Z0-9\p{S}\p{L}";
        let alone = format!("[{any}]-?[{any}]{{0,62}}");
        let dotted = format!(r"(?:[{any}](?:[{any}-]{{0,61}}[{any}])?\.)+[a-zA-Z\p{{L}}]{{2,63}}");
        Regex::new(&format!("^(?:{alone}|{dotted})$")).ok()
    });
    text.len() <= 255
        && text.split('.').all(|label| label.len() <= 63)
        && FORM.as_ref().is_some_and(|form| form.is_match(text))
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns `true` for a UUID: five groups of hexadecimal digits, with optional dashes between them.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    for (at, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        rest = rest.strip_prefix('-').filter(|_| at > 0).unwrap_or(rest);
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        let of_version = match (at, version) {
            (2, Some(version)) => group.starts_with(version),
            (3, Some('4' | '5')) => group.starts_with(['8', '9', 'a', 'b', 'A', 'B']),
            _ => true,
        };
        if !of_version || !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

fn is_hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns `true` for `rgb(r,g,b)`, with optional spaces around the numbers.
fn is_rgb_colour(text: &str) -> bool {
    let part = |part: &str| {
        let part = part.trim_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let plain = part == "0" || (!part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit()));
        plain && part.parse::<u8>().is_ok()
    };
    let inner = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    inner.is_some_and(|inner| inner.split(',').count() == 3 && inner.split(',').all(part))
}

#[cfg(test)]
mod tests;

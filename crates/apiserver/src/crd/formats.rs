//! The formats of text that a schema can ask for, such as `date-time` and `uuid`.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;

/// The formats that a definition may name without a warning.
const KNOWN: &[&str] = &[
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "date-time",
    "datetime",
    "double",
    "duration",
    "email",
    "float",
    "hexcolor",
    "hostname",
    "int32",
    "int64",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8s-long-name",
    "k8s-short-name",
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

/// Whether a value of a type can have the format at all; a schema without a type is of texts.
pub(crate) fn is_known(format: &str, type_name: &str) -> bool {
    match type_name {
        "" | "string" => KNOWN.contains(&format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether a text has the format; unknown formats fit everything.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "hostname" => is_hostname(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(text, format.strip_prefix("uuid").unwrap_or_default()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "byte" => !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "hexcolor" => is_hex_colour(text),
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    let Some(separator) = text.as_bytes().get(10) else { return false };
    matches!(separator, b'T' | b't')
        && is_date(text.get(..10).unwrap_or_default())
        && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// As Go writes durations, and as Scala does: `1h30m`, `3 hours`.
fn is_duration(text: &str) -> bool {
    const GO: &[&str] = &["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let words = |rest: &str| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = rest[digits..].trim();
        let unit = unit.strip_suffix('s').filter(|unit| unit.len() > 1).unwrap_or(unit);
        const WORDS: &[&str] = &[
            "ns",
            "nano",
            "nanosecond",
            "us",
            "µs",
            "micro",
            "microsecond",
            "ms",
            "milli",
            "millisecond",
            "s",
            "sec",
            "second",
            "m",
            "min",
            "minute",
            "h",
            "hr",
            "hour",
            "d",
            "day",
            "w",
            "wk",
            "week",
        ];
        digits > 0 && WORDS.contains(&unit)
    };
    if words(rest) {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if number == 0 || rest[..number].parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[number..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        if !GO.contains(&&rest[..unit]) {
            return false;
        }
        rest = &rest[unit..];
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(length) = length.parse::<u8>() else { return false };
    address.parse::<Ipv4Addr>().is_ok() && length <= 32 || address.parse::<Ipv6Addr>().is_ok() && length <= 128
}

fn is_mac(text: &str) -> bool {
    let octets = |separator: char| {
        let parts: Vec<_> = text.split(separator).collect();
        matches!(parts.len(), 6 | 8 | 20)
            && parts.iter().all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let quads = || {
        let parts: Vec<_> = text.split('.').collect();
        matches!(parts.len(), 3 | 4 | 10)
            && parts.iter().all(|part| part.len() == 4 && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    octets(':') || octets('-') || quads()
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let inner = |c: char| c.is_alphanumeric() || c == '-';
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    !text.is_empty() && text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_uuid(text: &str, version: &str) -> bool {
    let hex: Vec<char> = text.chars().filter(|c| *c != '-').collect();
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    let shaped = matches!(groups.as_slice(), [8, 4, 4, 4, 12] | [32]);
    let of_version = version.is_empty() || hex.get(12).is_some_and(|c| version.starts_with(*c));
    shaped && hex.iter().all(char::is_ascii_hexdigit) && of_version
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return text.starts_with('/') };
    let mut letters = scheme.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && !rest.contains(char::is_whitespace)
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    !local.is_empty() && !local.contains(char::is_whitespace) && is_hostname(domain)
}

fn is_hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

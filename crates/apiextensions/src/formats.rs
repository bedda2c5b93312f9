//! String formats of schemas, such as `date-time` and `uuid`.
//!
//! Each format accepts the same strings as Kubernetes' `strfmt` registry.

mod address;
mod digits;
mod email;

use std::borrow::Cow;
use std::sync::LazyLock;

use pintle_cel::__private::{
    is_base64, is_date, is_date_time, is_label_name, is_request_uri, is_subdomain_name, is_uuid, parse_schema_duration,
};
use regex::Regex;

/// The names of the known formats, without dashes, because format names are compared without dashes. A schema with
/// another format causes a warning.
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
        "duration" => parse_schema_duration(text).is_some(),
        "email" => email::is_email(text),
        "hexcolor" => is_hex_colour(text),
        "hostname" => is_hostname(text),
        "ipv4" => address::is_ipv4(text),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "isbn" => digits::is_isbn10(text) || digits::is_isbn13(text),
        "isbn10" => digits::is_isbn10(text),
        "isbn13" => digits::is_isbn13(text),
        "k8slongname" => is_subdomain_name(text),
        "k8sshortname" => is_label_name(text),
        "mac" => address::is_mac(text),
        "rgbcolor" => is_rgb_colour(text),
        "ssn" => digits::is_social_security(text),
        "uri" => is_request_uri(text),
        "uuid" => is_uuid(text),
        "uuid3" => is_uuid_of_version(text, '3'),
        "uuid4" => is_uuid_of_version(text, '4'),
        "uuid5" => is_uuid_of_version(text, '5'),
        _ => true,
    }
}

fn plain_name(format: &str) -> Cow<'_, str> {
    if format.contains('-') { format.replace('-', "").into() } else { format.into() }
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

fn is_uuid_of_version(text: &str, version: char) -> bool {
    let digits = text.replace('-', "");
    let has_variant = || version == '3' || digits[16..].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    is_uuid(text) && digits[12..].starts_with(version) && has_variant()
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

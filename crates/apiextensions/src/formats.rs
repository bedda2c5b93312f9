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

/// Returns `true` if the format is known for this schema type. A schema without a type counts as a string schema.
pub(crate) fn is_known(format: &str, type_name: &str) -> bool {
    match type_name {
        "" | "string" => text_check(format).is_some(),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Returns `true` if the text is valid in this format. An unknown format accepts every string.
pub(crate) fn fits(format: &str, text: &str) -> bool {
    text_check(format).is_none_or(|is_valid| is_valid(text))
}

/// Returns the check for a format of strings, or `None` for an unknown format. A schema with an unknown format causes a
/// warning. Dashes in the name of a format are ignored.
fn text_check(format: &str) -> Option<fn(&str) -> bool> {
    let name: Cow<'_, str> = if format.contains('-') { format.replace('-', "").into() } else { format.into() };
    Some(match &*name {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "byte" => is_base64,
        "cidr" => address::is_cidr,
        "creditcard" => digits::is_credit_card,
        "date" => is_date,
        "datetime" => is_date_time,
        "duration" => |text| parse_schema_duration(text).is_some(),
        "email" => email::is_email,
        "hexcolor" => is_hex_colour,
        "hostname" => is_hostname,
        "ipv4" => address::is_ipv4,
        "ipv6" => |text| text.parse::<std::net::Ipv6Addr>().is_ok(),
        "isbn" => |text| digits::is_isbn10(text) || digits::is_isbn13(text),
        "isbn10" => digits::is_isbn10,
        "isbn13" => digits::is_isbn13,
        "k8slongname" => is_subdomain_name,
        "k8sshortname" => is_label_name,
        "mac" => address::is_mac,
        "password" => |_| true,
        "rgbcolor" => is_rgb_colour,
        "ssn" => digits::is_social_security,
        "uri" => is_request_uri,
        "uuid" => is_uuid,
        "uuid3" => |text| is_uuid_of_version(text, '3'),
        "uuid4" => |text| is_uuid_of_version(text, '4'),
        "uuid5" => |text| is_uuid_of_version(text, '5'),
        _ => return None,
    })
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

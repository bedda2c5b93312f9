//! Named string formats, such as DNS labels, which expressions use to validate strings.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::url;
use crate::time::Timestamp;

/// A named string format, such as a DNS label.
#[derive(Debug)]
pub struct NamedFormat {
    pub(crate) name: &'static str,
    /// The name of the format in expressions.
    pub(crate) key: &'static str,
    /// The length of kube-apiserver's regular expression for this format, which determines the cost of a validation.
    pub(crate) regex_size: u64,
    pub(crate) validate: fn(&str) -> Vec<String>,
}

pub(crate) static FORMATS: [NamedFormat; 13] = [
    format("DNS1123Label", "dns1123Label", 30, label),
    format("DNS1123Subdomain", "dns1123Subdomain", 60, subdomain),
    format("DNS1035Label", "dns1035Label", 30, old_label),
    format("QualifiedName", "qualifiedName", 60, qualified_name),
    format("DNS1123LabelPrefix", "dns1123LabelPrefix", 30, |text| label(&prefix(text))),
    format("DNS1123SubdomainPrefix", "dns1123SubdomainPrefix", 60, |text| subdomain(&prefix(text))),
    format("DNS1035LabelPrefix", "dns1035LabelPrefix", 30, |text| old_label(&prefix(text))),
    format("LabelValue", "labelValue", 40, label_value),
    format("URI", "uri", 1103, |text| {
        url::parse_request(text).err().map(|reason| url::refusal(text, &reason)).into_iter().collect()
    }),
    format("uuid", "uuid", 70, |text| unless(is_uuid(text), "does not match the UUID format")),
    format("byte", "byte", 84, |text| unless(is_base64(text), "invalid base64")),
    format("date", "date", 71, |text| unless(is_date(text), "invalid date")),
    format("datetime", "datetime", 71, |text| unless(is_date_time(text), "invalid datetime")),
];

const fn format(
    name: &'static str,
    key: &'static str,
    regex_size: u64,
    validate: fn(&str) -> Vec<String>,
) -> NamedFormat {
    NamedFormat { name, key, regex_size, validate }
}

fn unless(valid: bool, fault: &str) -> Vec<String> {
    if valid { vec![] } else { vec![fault.into()] }
}

/// Replaces a trailing `-` and the character before it, so that a name prefix can be validated like a name. A name
/// prefix may end with `-`, because Kubernetes appends a generated suffix to it.
fn prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(name) if !name.is_empty() => {
            let end = name.char_indices().next_back().map_or(0, |(index, _)| index);
            format!("{}a", &name[..end])
        }
        _ => text.into(),
    }
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const OLD_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn fault(message: &str, pattern: &str, examples: &str) -> String {
    format!("{message} (e.g. {examples}, regex used for validation is '{pattern}')")
}

/// Returns `true` if a text consists of allowed characters, and begins and ends with an alphanumeric character.
fn is_name(text: &str, inner: impl Fn(u8) -> bool, ends: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| ends(*first))
        && bytes.last().is_some_and(|last| ends(*last))
        && bytes.iter().all(|byte| inner(*byte))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    is_name(text, |byte| lower(byte) || byte == b'-', lower)
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn too_long(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} characters"))
}

fn label(text: &str) -> Vec<String> {
    let form = match (is_label(text), is_subdomain(text)) {
        (true, _) => None,
        (_, true) => Some("must not contain dots".into()),
        _ => {
            let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                           start and end with an alphanumeric character";
            Some(fault(message, LABEL, "'my-name',  or '123-abc'"))
        }
    };
    too_long(text, 63).into_iter().chain(form).collect()
}

fn subdomain(text: &str) -> Vec<String> {
    let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                   start and end with an alphanumeric character";
    let form = (!is_subdomain(text)).then(|| fault(message, &format!("{LABEL}(\\.{LABEL})*"), "'example.com'"));
    too_long(text, 253).into_iter().chain(form).collect()
}

fn old_label(text: &str) -> Vec<String> {
    let valid = is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                   character, and end with an alphanumeric character";
    let form = (!valid).then(|| fault(message, OLD_LABEL, "'my-name',  or 'abc-123'"));
    too_long(text, 63).into_iter().chain(form).collect()
}

fn is_key(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_alphanumeric();
    is_name(text, |byte| alphanumeric(byte) || matches!(byte, b'-' | b'_' | b'.'), alphanumeric)
}

fn qualified_name(text: &str) -> Vec<String> {
    let message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                   character";
    let form = || fault(message, KEY, "'MyName',  or 'my.name',  or '123-abc'");
    let mut faults = Vec::new();
    let name = match *text.split('/').collect::<Vec<_>>() {
        [name] => name,
        [prefix, name] => {
            match prefix {
                "" => faults.push("prefix part must be non-empty".into()),
                prefix => faults.extend(subdomain(prefix).into_iter().map(|fault| format!("prefix part {fault}"))),
            }
            name
        }
        _ => {
            let form = form();
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {form} {hint}")];
        }
    };
    match name.len() {
        0 => faults.push("name part must be non-empty".into()),
        64.. => faults.push("name part must be no more than 63 bytes".into()),
        _ => {}
    }
    if !is_key(name) {
        faults.push(format!("name part {}", form()));
    }
    faults
}

fn label_value(text: &str) -> Vec<String> {
    let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                   start and end with an alphanumeric character";
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes".into());
    }
    if !text.is_empty() && !is_key(text) {
        faults.push(fault(message, &format!("({KEY})?"), "'MyValue',  or 'my_value',  or '12345'"));
    }
    faults
}

/// Returns `true` if `text` is an absolute URI or an absolute path.
pub fn is_request_uri(text: &str) -> bool {
    url::parse_request(text).is_ok()
}

/// Returns `true` if a text is a valid UUID. The hyphens in the UUID are optional.
pub fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (index, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        match rest.split_at_checked(length) {
            Some((digits, after)) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Returns `true` for base64 with padding. The unused bits before the padding are not checked.
pub fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let valid = digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
    valid && !text.is_empty() && text.len().is_multiple_of(4) && text.len() - digits.len() <= 2
}

/// Returns `true` if a text is a date, such as `2006-01-02`.
pub fn is_date(text: &str) -> bool {
    Timestamp::parse_date(text).is_some()
}

/// Returns `true` for a date-time: a date, `t`, a time without leap seconds, and a zone offset. The check ignores
/// letter case and accepts any zone offset. If the string contains a second `t`, the check ignores the text after it.
pub fn is_date_time(text: &str) -> bool {
    static TIME: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$").ok());
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    let in_range = |time: Captures<'_>| &time[1] <= "23" && &time[2] <= "59" && &time[3] <= "59";
    is_date(day) && TIME.as_ref().and_then(|form| form.captures(time)).is_some_and(in_range)
}

/// Returns `true` if `text` is a valid name for most kinds of objects.
pub fn is_subdomain_name(text: &str) -> bool {
    text.len() <= 253 && is_subdomain(text)
}

/// Returns `true` if `text` is a valid namespace name.
pub fn is_label_name(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

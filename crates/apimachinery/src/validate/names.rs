//! Rules for names and annotation keys. The rules for labels are in `pintle_meta`.

use std::net::IpAddr;

use pintle_meta::__private::is_dns_part;
use pintle_meta::label_key_faults;

/// A rule for names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS subdomain of at most 253 bytes, such as `a.b-c`.
    #[default]
    Subdomain,
    /// A DNS subdomain of at most this length in bytes.
    ShortSubdomain(usize),
    /// A DNS label (RFC 1123) of at most 63 bytes, which may begin with a digit.
    Label,
    /// A DNS label (RFC 1035) of at most 63 bytes, which begins with a letter.
    Rfc1035Label,
    /// A segment of a URL path.
    PathSegment,
    /// An IP address in canonical form.
    IpAddress,
    /// A ConfigMap key, which is a file name of at most 253 bytes.
    ConfigKey,
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                     with an alphanumeric character";
const RFC_1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                         character, and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                         start and end with an alphanumeric character";
const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

/// Returns a message for each rule that `name` violates. If `is_prefix` is
/// true, `name` is the prefix of a generated name and may end with `-`.
pub fn name_errors(rule: NameRule, name: &str, is_prefix: bool) -> Vec<String> {
    let masked_name;
    // Accept a trailing dash in a name prefix, because the generated suffix follows it. Like kube-apiserver, this
    // function does not validate the byte before the dash.
    let start = if is_prefix && name.ends_with('-') { name.len().checked_sub(2) } else { None };
    let name = match start.and_then(|end| name.get(..end)) {
        Some(start) => {
            masked_name = format!("{start}a");
            &masked_name[..]
        }
        None => name,
    };
    match rule {
        NameRule::Subdomain => subdomain_errors(name, 253),
        NameRule::ShortSubdomain(max_length) => {
            let mut errors = subdomain_errors(name, 253);
            if name.len() > max_length {
                errors.push(format!("must be no more than {max_length} characters"));
            }
            errors
        }
        NameRule::Label => label_errors(name),
        NameRule::Rfc1035Label => rfc_1035_label_errors(name),
        NameRule::IpAddress => match name.parse::<IpAddr>() {
            Ok(address) if address.to_string() == name => Vec::new(),
            Ok(address) => vec![format!("must be in canonical form ({:?})", address.to_string())],
            Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".into()],
        },
        NameRule::PathSegment => path_segment_errors(name, is_prefix),
        NameRule::ConfigKey => config_key_errors(name),
    }
}

/// Returns the reason why `key` is not a valid annotation key. The key must follow the rules for label keys, ignoring
/// letter case.
pub fn annotation_key_errors(key: &str) -> Vec<String> {
    label_key_faults(&key.to_lowercase())
}

fn subdomain_errors(name: &str, max_length: usize) -> Vec<String> {
    let mut errors = too_long(name, max_length);
    if !name.split('.').all(is_dns_part) {
        errors.push(format!(
            "{SUBDOMAIN} (e.g. 'example.com', regex used for validation is '{LABEL_PATTERN}(\\.{LABEL_PATTERN})*')"
        ));
    }
    errors
}

fn label_errors(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 63);
    if !is_dns_part(name) {
        if name.contains('.') && subdomain_errors(name, usize::MAX).is_empty() {
            errors.push("must not contain dots".into())
        } else {
            errors.push(format!(
                "{LABEL} (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL_PATTERN}')"
            ))
        }
    }
    errors
}

fn rfc_1035_label_errors(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 63);
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !is_dns_part(name) {
        errors.push(format!(
            "{RFC_1035_LABEL} (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        ));
    }
    errors
}

fn path_segment_errors(name: &str, is_prefix: bool) -> Vec<String> {
    let mut errors = Vec::new();
    if !is_prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    for forbidden in ['/', '%'] {
        if name.contains(forbidden) {
            errors.push(format!("may not contain '{forbidden}'"));
        }
    }
    errors
}

fn config_key_errors(key: &str) -> Vec<String> {
    const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  \
                        or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut errors = Vec::new();
    if key.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.chars().all(is_allowed) {
        errors.push(CONFIG_KEY.to_owned());
    }
    match key {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        key if key.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

fn too_long(name: &str, max_length: usize) -> Vec<String> {
    if name.len() > max_length { vec![format!("must be no more than {max_length} characters")] } else { Vec::new() }
}

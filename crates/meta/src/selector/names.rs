//! Validates label keys and values. The error messages match Kubernetes' `IsQualifiedName` and `IsValidLabelValue`.

/// Returns the reasons why `key` is not a valid label key, or an empty list if the key is valid. A label key has the
/// form `name` or `prefix/name`.
///
/// The prefix is a DNS subdomain of at most 253 bytes, with dots between its parts. Each part consists of lower-case
/// letters, digits and `-`, and starts and ends with a letter or a digit. The name has at most 63 bytes, consists of
/// letters, digits, `-`, `_` and `.`, and starts and ends with a letter or a digit.
pub fn label_key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            faults.push("prefix part must be non-empty".into());
            name
        }
        Some((prefix, name)) => {
            faults.extend(prefix_faults(prefix));
            name
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".into());
    } else if name.len() > LONGEST {
        faults.push(format!("name part must be no more than {LONGEST} bytes"));
    }
    if name.is_empty() || !is_word(name, OTHERS) {
        faults.push(format!("name part {NAME}"));
    }
    faults
}

/// Returns the reasons why `value` is not a valid label value, or an empty list if the value is valid. A valid label
/// value is empty or follows the same rules as the name in a label key.
pub fn label_value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > LONGEST {
        faults.push(format!("must be no more than {LONGEST} bytes"));
    }
    if !is_word(value, OTHERS) {
        faults.push(VALUE.into());
    }
    faults
}

/// Returns the reasons why `prefix` is not a DNS subdomain. The length of a prefix is limited in bytes, unlike the
/// length of an object name, which is limited in characters.
fn prefix_faults(prefix: &str) -> Vec<String> {
    const LONGEST: usize = 253;
    let mut faults = Vec::new();
    if prefix.len() > LONGEST {
        faults.push(format!("prefix part must be no more than {LONGEST} bytes"));
    }
    if !prefix.split('.').all(is_dns_part) {
        faults.push(format!("prefix part {SUBDOMAIN}"));
    }
    faults
}

/// The maximum length of a label value and of the name in a label key, in bytes.
const LONGEST: usize = 63;

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                    character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
                     and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                     validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                         start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The characters that label values and the names in label keys can contain, except for letters and digits.
const OTHERS: &[u8] = b"-_.";

/// Returns `true` if `text` is a DNS label of at most 63 bytes, such as the name of a namespace.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST && is_dns_part(text)
}

/// Returns `true` if `text` is a DNS subdomain of at most 253 bytes, such as the name of most objects.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

/// Returns `true` if `text` consists of lower-case letters, digits and `-`, and starts and ends with a letter or a
/// digit.
pub fn is_dns_part(text: &str) -> bool {
    !text.is_empty() && is_word(text, b"-") && !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Returns `true` if `text` is empty, or if it contains only ASCII letters, digits and `others`, and its first and last
/// characters are letters or digits.
fn is_word(text: &str, others: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let is_edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || others.contains(byte))
}

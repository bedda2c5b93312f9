//! Rules for port numbers and port names.

pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

/// Returns the reason why a string is not a valid port name. The same rules for names apply to the target ports of
/// Services.
pub(crate) fn port_name_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() > 15 {
        errors.push("must be no more than 15 characters".into());
    }
    if name.is_empty() || !name.chars().all(plain) {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !name.contains(|c: char| c.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen".into());
    }
    errors
}

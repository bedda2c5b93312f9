//! Which of two revisions is the later one.

/// Whether `version` is earlier than `than`, as far as that can be told: where both are numbers, of whatever length.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    match (number(version), number(than)) {
        (Some(version), Some(than)) => (version.len(), version) < (than.len(), than),
        _ => false,
    }
}

/// The digits that count.
fn number(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers_and_all_else_is_not() {
        for (version, than) in
            [("9", "10"), ("0", "1"), ("00", "1"), ("99999999999999999999999998", "099999999999999999999999999")]
        {
            assert!(is_older(version, than), "{version} {than}");
            assert!(!is_older(than, version), "{than} {version}");
        }
        for (version, than) in [
            ("7", "7"),
            ("07", "7"),
            ("", "7"),
            ("7", ""),
            ("a", "b"),
            ("1", "b"),
            ("-1", "1"),
            ("+1", "2"),
            ("1.5", "2"),
        ] {
            assert!(!is_older(version, than), "{version} {than}");
        }
    }
}

//! Compares resourceVersions, which are numbers of any length.

use std::cmp::Ordering;

/// Compares two revisions. Returns `None` if either revision is not a number.
pub(crate) fn compare(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (digits(one)?, digits(other)?);
    Some(one.len().cmp(&other.len()).then_with(|| one.cmp(other)))
}

pub(crate) fn is_number(version: &str) -> bool {
    digits(version).is_some()
}

/// Returns `true` if `version` is older than `than`. Returns `false` if `version` or `than` is not a number.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    compare(version, than) == Some(Ordering::Less)
}

/// Sets `version` to `revision`, unless `revision` is empty or older than `version`.
pub(crate) fn advance(version: &mut String, revision: &str) {
    if !revision.is_empty() && compare(revision, version) != Some(Ordering::Less) {
        set(version, revision);
    }
}

/// Sets `version` to `revision`, unless `revision` is empty. `revision` may be older than `version`.
pub(crate) fn set(version: &mut String, revision: &str) {
    if !revision.is_empty() {
        version.clear();
        version.push_str(revision);
    }
}

/// Returns `version` without leading zeros, or `None` if it is not a number.
fn digits(version: &str) -> Option<&str> {
    let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| version.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers_of_any_length() {
        let long = "123456789012345678901234567890";
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare(long, "99"), Some(Ordering::Greater));
        assert_eq!(compare("007", "7"), Some(Ordering::Equal));
        assert_eq!((compare("", "1"), compare("1", "a1"), compare("-1", "1")), (None, None, None));
    }

    #[test]
    fn version_decreases_only_for_a_list() {
        let mut version = String::new();
        for (revision, expected) in
            [("", ""), ("9", "9"), ("10", "10"), ("9", "10"), ("", "10"), ("x", "x"), ("9", "9")]
        {
            advance(&mut version, revision);
            assert_eq!(version, expected);
        }
        set(&mut version, "8");
        set(&mut version, "");
        assert_eq!(version, "8");
    }
}

//! Semantic versions.

use std::cmp::Ordering;
use std::fmt;

use semver::{BuildMetadata, Prerelease};

use crate::go_text::quoted;

/// A semantic version.
#[derive(Clone, Debug)]
pub struct Version {
    pub(crate) parts: semver::Version,
    length: usize,
}

impl Version {
    /// Returns the length of the text that the version was parsed from.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        self.parts.cmp_precedence(&other.parts)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}

/// Normalizes the text of a version: removes a leading `v` and the leading zeros of its numbers, and adds
/// missing numbers.
pub(crate) fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<_> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".into());
    }
    parts.resize(3, "0".into());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.into();
    }
    let digits = part.trim_start_matches('0');
    if digits.starts_with(|c: char| c.is_ascii_digit()) { digits.into() } else { format!("0{digits}") }
}

pub(crate) fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".into());
    }
    let parts: Vec<_> = text.splitn(3, '.').collect();
    let [major, minor, rest] = *parts else { return Err("No Major.Minor.Patch elements found".into()) };
    let (major, minor) = (component(major, "major")?, component(minor, "minor")?);
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
    let (patch, prerelease) = rest.split_once('-').map_or((rest, None), |(patch, parts)| (patch, Some(parts)));
    let patch = component(patch, "patch")?;
    prerelease.into_iter().flat_map(|parts| parts.split('.')).try_for_each(check_part)?;
    build.into_iter().flat_map(|parts| parts.split('.')).try_for_each(check_meta_data)?;
    let pre = Prerelease::new(prerelease.unwrap_or_default()).map_err(|error| error.to_string())?;
    let build = BuildMetadata::new(build.unwrap_or_default()).map_err(|error| error.to_string())?;
    Ok(Version { parts: semver::Version { major, minor, patch, pre, build }, length: text.len() })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn uint(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let reason = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        format!("strconv.ParseUint: parsing {}: {reason}", quoted(text))
    })
}

fn component(text: &str, name: &str) -> Result<u64, String> {
    if !is_number(text) {
        return Err(format!("Invalid character(s) found in {name} number {}", quoted(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        let capital = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
        return Err(format!("{capital} number must not contain leading zeroes {}", quoted(text)));
    }
    uint(text)
}

fn check_part(text: &str) -> Result<(), String> {
    match text {
        "" => Err("Prerelease is empty".into()),
        _ if is_number(text) && text.len() > 1 && text.starts_with('0') => {
            Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quoted(text)))
        }
        _ if is_number(text) => uint(text).map(drop),
        _ if is_word(text) => Ok(()),
        _ => Err(format!("Invalid character(s) found in prerelease {}", quoted(text))),
    }
}

fn check_meta_data(text: &str) -> Result<(), String> {
    match text {
        "" => Err("Build meta data is empty".into()),
        _ if is_word(text) => Ok(()),
        _ => Err(format!("Invalid character(s) found in build meta data {}", quoted(text))),
    }
}

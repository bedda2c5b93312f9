//! Semantic versions.

use std::cmp::Ordering;
use std::fmt;

use crate::go_text::quoted;

/// A semantic version.
#[derive(Clone, Debug)]
pub struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    prerelease: Vec<Part>,
    build: Vec<String>,
    length: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    // This variant is first, because numbers sort before texts.
    Number(u64),
    Text(String),
}

impl Version {
    /// Returns the length of the text that the version was parsed from.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        let prerelease = || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.prerelease.cmp(&other.prerelease),
        };
        numbers(self).cmp(&numbers(other)).then_with(prerelease)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (index, part) in self.prerelease.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(f, "{number}")?,
                Part::Text(text) => f.write_str(text)?,
            }
        }
        for (index, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if index == 0 { "+" } else { "." })?;
        }
        Ok(())
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
    let prerelease = prerelease.into_iter().flat_map(|parts| parts.split('.')).map(part).collect::<Result<_, _>>()?;
    let build = build.into_iter().flat_map(|parts| parts.split('.')).map(meta_data).collect::<Result<_, _>>()?;
    Ok(Version { major, minor, patch, prerelease, build, length: text.len() })
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

fn part(text: &str) -> Result<Part, String> {
    match text {
        "" => Err("Prerelease is empty".into()),
        _ if is_number(text) && text.len() > 1 && text.starts_with('0') => {
            Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quoted(text)))
        }
        _ if is_number(text) => uint(text).map(Part::Number),
        _ if is_word(text) => Ok(Part::Text(text.into())),
        _ => Err(format!("Invalid character(s) found in prerelease {}", quoted(text))),
    }
}

fn meta_data(text: &str) -> Result<String, String> {
    match text {
        "" => Err("Build meta data is empty".into()),
        _ if is_word(text) => Ok(text.into()),
        _ => Err(format!("Invalid character(s) found in build meta data {}", quoted(text))),
    }
}

//! Reads the Pod Security Standards of a namespace from its labels, and checks pods against these standards.

mod baseline;
mod pod_view;
mod restricted;
#[cfg(test)]
mod tests;

use std::fmt;

use pintle_json::Json;

use baseline::BASELINE;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pod_view::PodView;
use restricted::RESTRICTED;

const POD_SECURITY_PREFIX: &str = "pod-security.kubernetes.io/";

/// The levels of the Pod Security Standards, from the most permissive to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The version of a Pod Security Standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The version of the standard in the Kubernetes release 1.x, where x is this number.
    Minor(u64),
    Latest,
}

/// A level and a version of the Pod Security Standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    pub level: Level,
    version: Version,
}

/// A namespace's Pod Security Standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The server rejects pods that violate this standard.
    pub enforce: Standard,
    /// The audit log records violations of this standard.
    pub audit: Standard,
    /// Violations of this standard cause warnings.
    pub warn: Standard,
}

/// A violation of a standard by a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    reason: &'static str,
    detail: String,
}

struct Control {
    since: u64,
    /// The first minor version in which a stricter rule of the restricted standard replaces this rule, if any.
    replaced: Option<u64>,
    violation: fn(&PodView<'_>, Version) -> Option<Violation>,
}

impl Policy {
    /// Reads a namespace's policy, and returns the policy and an error for each invalid label. `label` must return the
    /// value of the label with the given key. An invalid level in the `enforce` label selects the strictest level.
    pub fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, FieldErrors) {
        const LEVELS: &str = "must be one of privileged, baseline, restricted";
        const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";
        let mut errors = FieldErrors::default();
        let mut error = |label: &str, value: &str, why: &str| {
            errors.push(FieldError::invalid_text(format!("metadata.labels[{label}]"), value, why));
        };
        let mut read = |mode: &str| {
            let (level, version) =
                (format!("{POD_SECURITY_PREFIX}{mode}"), format!("{POD_SECURITY_PREFIX}{mode}-version"));
            let of_level = label(&level).map(|text| {
                let known = Level::parse(text);
                if known.is_none() {
                    error(&level, text, LEVELS);
                }
                known
            });
            let of_version = label(&version).map(|text| {
                Version::parse(text).unwrap_or_else(|| {
                    error(&version, text, VERSIONS);
                    Version::Latest
                })
            });
            (of_level, of_version)
        };
        let (enforced, enforced_version) = read("enforce");
        let (audited, audited_version) = read("audit");
        let (warned, warned_version) = read("warn");
        let known = enforced.flatten().unwrap_or(Level::Privileged);
        let enforce = Standard {
            level: enforced.map_or(known, |level| level.unwrap_or(Level::Restricted)),
            version: enforced_version.unwrap_or(Version::Latest),
        };
        let audit = Standard {
            level: audited.flatten().unwrap_or(Level::Privileged),
            version: audited_version.unwrap_or(Version::Latest),
        };
        // By default, violations of the enforced standard also cause warnings. The enforced standard does not reject
        // pod templates, so clients that create workloads need the warnings.
        let follows = warned.is_none() && known > Level::Privileged;
        let warn = Standard {
            level: warned.map_or(known, |level| level.unwrap_or(Level::Privileged)),
            version: warned_version.unwrap_or(if follows { enforce.version } else { Version::Latest }),
        };
        (Self { enforce, audit, warn }, errors)
    }
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted].into_iter().find(|level| level.to_string() == text)
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_plain = minor == "0" || !minor.starts_with(['0', '+']);
        minor.parse().ok().filter(|_| is_plain).map(Self::Minor)
    }

    fn is_since(self, minor: u64) -> bool {
        self >= Self::Minor(minor)
    }
}

impl Standard {
    /// Returns the violations of a pod or a pod template, in the order of the rules. Violations of baseline rules
    /// precede violations of restricted rules.
    pub fn violations(self, pod: &Json) -> Vec<Violation> {
        let Self { level, version } = self;
        let baseline = BASELINE.iter().filter(|check| {
            level >= Level::Baseline
                && !(level == Level::Restricted && check.replaced.is_some_and(|minor| version.is_since(minor)))
        });
        let restricted = RESTRICTED.iter().filter(|_| level == Level::Restricted);
        let checks = baseline.chain(restricted).filter(|check| version.is_since(check.since));
        let pod = PodView::new(pod);
        checks.filter_map(|check| (check.violation)(&pod, version)).collect()
    }

    /// Returns `true` if a pod that satisfies `other` can violate this standard.
    pub fn may_exceed(self, other: Self) -> bool {
        self.level > Level::Privileged && (self.level > other.level || self.version != other.version)
    }
}

/// Formats violations with their details, separated by commas.
pub fn detailed(violations: &[Violation]) -> String {
    let describe = |Violation { reason, detail }: &Violation| format!("{reason} ({detail})");
    violations.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// Formats violations without their details, separated by commas.
pub fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

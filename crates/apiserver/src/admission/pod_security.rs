//! The Pod Security Standards: to which of them a namespace holds its pods, by its labels, and what a pod has against one.

mod baseline;
mod pod_view;
mod restricted;
#[cfg(test)]
mod tests;

use std::fmt;

use pintle_json::Json;

use crate::validate::{FieldError, FieldErrors};
use baseline::BASELINE;
use pod_view::PodView;
use restricted::RESTRICTED;

const POD_SECURITY_PREFIX: &str = "pod-security.kubernetes.io/";

/// How strict a standard is, the laxest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// The release of Kubernetes whose form of a standard counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    /// 1 and this minor.
    Minor(u64),
    Latest,
}

/// What pods can be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standard {
    pub(crate) level: Level,
    version: Version,
}

/// What a namespace does with its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Pods that violate this are refused.
    pub(crate) enforce: Standard,
    /// Of what violates this the audit tells.
    pub(crate) audit: Standard,
    /// Of what violates this is warned.
    pub(crate) warn: Standard,
}

/// What a pod has against a standard, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    reason: &'static str,
    detail: String,
}

/// One rule of the standards.
struct Control {
    /// The minor version that came with it.
    since: u64,
    /// The minor version since which a rule of the restricted standard says this and more.
    replaced: Option<u64>,
    violation: fn(&PodView<'_>, Version) -> Option<Violation>,
}

impl Policy {
    /// The policy of a namespace with these labels, and what is wrong with them. A level to enforce that makes no sense is taken for the
    /// strictest.
    pub(crate) fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, FieldErrors) {
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
        // What is enforced is warned of, too, unless the labels say otherwise: that reaches the templates that pods are made of.
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
    /// What a pod, or the template of one, has against the standard; in the order of the rules, those of the baseline first.
    pub(crate) fn violations(self, pod: &Json) -> Vec<Violation> {
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

    /// Whether pods that meet `other` may have something against this.
    pub(crate) fn is_beyond(self, other: Self) -> bool {
        self.level > Level::Privileged && (self.level > other.level || self.version != other.version)
    }
}

/// All of them with where they are.
pub(crate) fn told(violations: &[Violation]) -> String {
    let one = |Violation { reason, detail }: &Violation| format!("{reason} ({detail})");
    violations.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// All of them without.
pub(crate) fn reasons(violations: &[Violation]) -> String {
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

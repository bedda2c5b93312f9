//! The `LeaseCandidate` kind, which is served only if coordinated leader election is enabled.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;

use super::lease::{OLDEST_EMULATION_VERSION, strategy_errors};
use semver::Version;

pub(crate) struct LeaseCandidate;

impl Strategy for LeaseCandidate {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let text = |key: &str| object.text(&format!("/spec/{key}"));
        let field = |key: &str| format!("spec.{key}");
        errors.required_if(text("leaseName").is_empty(), field("leaseName"), "");
        let none = Version::new(0, 0, 0);
        let mut read = |key: &str| {
            let text = text(key);
            let version = version(text);
            if version.is_none() && !text.is_empty() {
                errors.push(FieldError::invalid_text(field(key), text, "must be a valid semantic version"));
            }
            version.unwrap_or_else(|| none.clone())
        };
        let emulated = read("emulationVersion");
        let binary = read("binaryVersion");
        if text("binaryVersion").is_empty() {
            errors.push(FieldError::required(field("binaryVersion"), ""));
        } else if !text("emulationVersion").is_empty() && binary.cmp_precedence(&emulated).is_lt() {
            let why = "must be greater than or equal to `emulationVersion`";
            errors.push(FieldError::invalid_text(field("binaryVersion"), text("binaryVersion"), why));
        }
        match text("strategy") {
            "" => errors.push(FieldError::required(field("strategy"), "")),
            strategy => {
                if strategy == OLDEST_EMULATION_VERSION && emulated.cmp_precedence(&none).is_eq() {
                    let why = "must be specified when `strategy` is 'OldestEmulationVersion'";
                    errors.push(FieldError::required(field("emulationVersion"), why));
                }
                errors.extend(strategy_errors(strategy));
            }
        }
        errors
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut errors = self.validate_create(new);
        let name = |object: &Json| object.text("/spec/leaseName").to_owned();
        errors.invalid_text_if(name(new) != name(old), "spec.leaseName", &name(new), "field is immutable");
        errors
    }
}

/// Parses a semantic version. As in Go's library, the numbers in a version must fit into 64 bits.
fn version(text: &str) -> Option<Version> {
    let version = Version::parse(text).ok()?;
    let fits = |subresource: &str| {
        subresource.parse::<u64>().is_ok() || subresource.bytes().any(|byte| !byte.is_ascii_digit())
    };
    (version.pre.is_empty() || version.pre.split('.').all(fits)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_order_of_semver() {
        let ordered =
            ["0.0.1", "1.0.0-1", "1.0.0-2", "1.0.0-a", "1.0.0-a.1", "1.0.0-b", "1.0.0", "1.2.0", "1.10.0", "2.0.0+x.1"];
        let read: Vec<_> = ordered.iter().map(|text| version(text).unwrap()).collect();
        assert!(read.windows(2).all(|pair| pair[0].cmp_precedence(&pair[1]).is_lt()));
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3+",
            "1.2.3-a_b",
            "1.+2.3",
            "1.2.3-99999999999999999999",
        ] {
            assert_eq!(version(text), None, "{text:?}");
        }
    }
}

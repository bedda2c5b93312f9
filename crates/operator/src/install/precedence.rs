//! Determines whether this build may replace the installed CustomResourceDefinition.
//!
//! Each replica installs the definition when it starts. During an upgrade, a replica of the old build may start last,
//! and it must not restore the old schema.

use std::cmp::Ordering;

use pintle_crd::CustomResourceDefinition;
use semver::Version;

/// The decision of this build about the installed definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Apply,
    /// Keep the installed definition, for this reason.
    Keep(String),
    /// Fail for this reason, because this build cannot replace the installed definition and cannot use it.
    Refuse(String),
}

/// Compares the definition of this build with the installed definition.
///
/// - If this build has a higher version, it replaces the installed definition.
/// - If this build has a lower version, it keeps the installed definition. If the versions are equal or unknown, it
///   keeps the installed definition only if replacing it would remove a served version.
/// - If a definition that this build must keep does not serve all of this build's versions, the build fails.
pub(super) fn decide(own: &CustomResourceDefinition, installed: &CustomResourceDefinition) -> Decision {
    let removed = not_served_by(own, installed);
    let by = match installed.package_version() {
        Some(version) => format!("version {version:?} of the program installed it"),
        None => "another writer installed it".to_owned(),
    };
    let keep = match order(own, installed) {
        Some(Ordering::Greater) => return Decision::Apply,
        Some(Ordering::Less) => format!("{by}, and this is version {:?}", own.package_version().unwrap_or_default()),
        _ if removed.is_empty() => return Decision::Apply,
        _ => {
            let advice = "raise the version of the package to remove versions";
            format!("{by}, and it serves {}, which this build does not define; {advice}", removed.join(", "))
        }
    };
    match not_served_by(installed, own) {
        needed if needed.is_empty() => Decision::Keep(keep),
        needed => {
            let needed = needed.join(", ");
            Decision::Refuse(format!("this build needs {needed}, which the cluster does not serve: {keep}"))
        }
    }
}

fn order(own: &CustomResourceDefinition, installed: &CustomResourceDefinition) -> Option<Ordering> {
    order_of(own.package_version(), installed.package_version())
}

/// Compares the versions of two builds. Returns `None` if a version is missing or not a valid semantic version.
pub(crate) fn order_of(own: Option<&str>, installed: Option<&str>) -> Option<Ordering> {
    let parse = |version: Option<&str>| Version::parse(version?).ok();
    Some(parse(own)?.cmp_precedence(&parse(installed)?))
}

fn not_served_by(definition: &CustomResourceDefinition, other: &CustomResourceDefinition) -> Vec<String> {
    let served = definition.served_versions();
    other.served_versions().into_iter().filter(|version| !served.contains(version)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(package: Option<&str>, versions: &[&str]) -> CustomResourceDefinition {
        let versions: Vec<_> = versions
            .iter()
            .map(|name| match name.strip_prefix('-') {
                Some(name) => json!({"name": name, "served": false}),
                None => json!({"name": name, "served": true}),
            })
            .collect();
        let spec = json!({"group": "example.com", "versions": versions});
        let definition: CustomResourceDefinition =
            serde_json::from_value(json!({"metadata": {"name": "websites.example.com"}, "spec": spec})).unwrap();
        package.map_or(definition.clone(), |version| definition.with_package_version(version))
    }

    #[test]
    fn newer_definition_and_served_versions_are_kept() {
        let (apply, keep, refuse) = ("apply", "keep", "refuse");
        for (own, installed, expected) in [
            ((Some("1.1.0"), ["v1"]), (Some("1.0.0"), vec!["v1", "v2"]), apply),
            ((Some("1.10.0"), ["v1"]), (Some("1.9.0"), vec!["v1"]), apply),
            ((Some("1.0.0"), ["v1"]), (Some("1.0.0"), vec!["v1"]), apply),
            ((Some("1.0.0"), ["v1"]), (Some("1.0.0+build.7"), vec!["v1", "-v2"]), apply),
            ((Some("1.0.0"), ["v1"]), (None, vec!["v1"]), apply),
            ((None, ["v1"]), (Some("9.0.0"), vec!["v1"]), apply),
            ((None, ["v1"]), (None, vec!["v1"]), apply),
            ((Some("1.0.0"), ["v1"]), (Some("1.0.1"), vec!["v1"]), keep),
            ((Some("1.0.0-rc.1"), ["v1"]), (Some("1.0.0"), vec!["v1", "v2"]), keep),
            ((Some("1.0.0"), ["v1"]), (Some("1.0.0"), vec!["v1", "v2"]), keep),
            ((Some("1.0.0"), ["v1"]), (None, vec!["v1", "v2"]), keep),
            ((None, ["v1"]), (Some("1.0.0"), vec!["v1", "v2"]), keep),
            ((Some("not a version"), ["v1"]), (Some("1.0.0"), vec!["v1", "v2"]), keep),
            ((Some("1.0.0"), ["v1"]), (Some("2.0.0"), vec!["-v1", "v2"]), refuse),
            ((Some("1.0.0"), ["v1"]), (Some("1.0.0"), vec!["v2"]), refuse),
            ((None, ["v1"]), (None, vec!["v2"]), refuse),
        ] {
            let decided = decide(&definition(own.0, &own.1), &definition(installed.0, &installed.1));
            let found = match decided {
                Decision::Apply => apply,
                Decision::Keep(_) => keep,
                Decision::Refuse(_) => refuse,
            };
            assert_eq!(found, expected, "{own:?} {installed:?}: {decided:?}");
        }
    }

    #[test]
    fn reason_names_both_versions_and_the_missing_ones() {
        let decided = decide(&definition(Some("1.0.0"), &["v1"]), &definition(Some("2.0.0"), &["v2"]));
        let expected = "this build needs v1, which the cluster does not serve: version \"2.0.0\" of the program installed \
                        it, and this is version \"1.0.0\"";
        assert_eq!(decided, Decision::Refuse(expected.into()));
    }
}

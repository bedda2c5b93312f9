//! Tests of the kind registry.

use pintle_effort::is_linear;

use std::sync::Arc;

use pintle_kinds::{Kind, Kinds, Plain};
use pintle_meta::GroupResource;

fn widgets(group: &str, kind: &str) -> Kind {
    Kind { plural: "widgets".into(), ..Kind::body_only(group, "v1", kind, Arc::new(Plain)) }
}

#[test]
fn replacing_custom_resources_takes_linear_time() {
    let come_and_go = |count: usize| {
        let mut kinds = pintle_builtin::kinds();
        let resource = |at: usize| GroupResource::new(format!("g{at}.com"), "widgets");
        for at in (0..count).map(resource) {
            kinds.replace_custom(&at, vec![widgets(&at.group, "Widget")]);
            assert!(kinds.resource(&at.group, "v1", "widgets").is_some());
        }
        (0..count).map(resource).for_each(|at| kinds.replace_custom(&at, Vec::new()));
    };
    assert!(is_linear(200, come_and_go));
}

#[test]
fn replaced_kind_is_removed_from_all_indexes() {
    let (mut kinds, before) = (pintle_builtin::kinds(), pintle_builtin::kinds().kinds().count());
    let resource = GroupResource::new("a.com", "widgets");
    kinds.replace_custom(&resource, vec![widgets("a.com", "Old")]);
    kinds.replace_custom(&resource, vec![widgets("a.com", "New")]);
    assert!(kinds.kind("a.com", "v1", "Old").is_none() && kinds.group_kind("a.com", "New").is_some());
    assert_eq!(
        (kinds.kinds().count(), kinds.version("a.com", "v1").map_or(0, |version| version.kinds().count())),
        (before + 1, 1)
    );
    kinds.replace_custom(&resource, Vec::new());
    assert!(kinds.resource("a.com", "v1", "widgets").is_none() && kinds.routing("a.com").is_none());
    assert_eq!(kinds.kinds().count(), before);
}

#[test]
fn custom_resource_does_not_replace_built_in_kinds() {
    let (mut kinds, before) = (pintle_builtin::kinds(), pintle_builtin::kinds());
    let resource = GroupResource::new("apps", "deployments");
    let version = |version: &str| Kind { version: version.into(), ..Kind::clone(&kinds_of(&before, "Deployment")) };
    let built_in = kinds_of(&kinds, "Deployment");
    kinds.replace_custom(&resource, vec![version("v1"), version("v2"), widgets("apps", "Other")]);
    assert!(Arc::ptr_eq(kinds.resource("apps", "v1", "deployments").expect("built in"), &built_in));
    assert!(kinds.resource("apps", "v2", "deployments").is_some() && !kinds.is_built_in("apps", "v2"));
    assert_eq!((kinds.kinds().count(), kinds.routing("apps")), (before.kinds().count() + 1, before.routing("apps")));
    assert!(kinds.resource("apps", "v1", "widgets").is_none(), "it belongs to another resource");
    assert!(kinds.groups().map(|(name, _)| name).eq(before.groups().map(|(name, _)| name)));
    kinds.replace_custom(&resource, Vec::new());
    assert!(kinds.version("apps", "v2").is_none() && kinds.resource("apps", "v1", "deployments").is_some());
    assert!(kinds.kinds().map(|kind| kind.gvk()).eq(before.kinds().map(|kind| kind.gvk())));
}

fn kinds_of(kinds: &Kinds, kind: &str) -> Arc<Kind> {
    kinds.group_kind("apps", kind).expect("built in").clone()
}

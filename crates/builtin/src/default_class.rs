//! Finds the default class, such as the default StorageClass, for objects that specify no class.

use std::cmp::Reverse;

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::object::metadata;
use pintle_meta::GroupResource;

/// Returns the name of the newest class that an annotation marks as the default.
pub(super) fn default_class(cluster: &dyn Cluster, classes: &GroupResource, annotations: &[&str]) -> Option<String> {
    let classes = cluster.objects(classes, None);
    let defaults = classes.iter().filter(|class| {
        let of = class.at("/metadata/annotations");
        annotations.iter().any(|key| of.is_some_and(|annotations| annotations[*key] == "true"))
    });
    let newest =
        defaults.min_by_key(|class| (Reverse(class.text("/metadata/creationTimestamp")), metadata::name(class)));
    newest.map(|class| metadata::name(class).to_owned())
}

//! How a request is classified: the flow schema that it falls under, and the priority level that this names.
//!
//! Nothing is queued and nobody held back; but the answers name both, as those of a real server do.

use pintle_json::Json;

use super::Attributes;
use crate::kinds::{Cluster, GroupResource};
use crate::object::metadata;
use crate::request::user::{MASTERS, User};

const FLOW_CONTROL_GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The uids of a flow schema and of its priority level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) schema: String,
    pub(crate) level: String,
}

/// What a request falls under: of the schemas that match, that of the lowest precedence; of those, the first by name.
pub(crate) fn classify(cluster: &dyn Cluster, user: &User, attributes: &Attributes<'_>) -> Option<Flow> {
    let schemas = GroupResource::new(FLOW_CONTROL_GROUP, "flowschemas");
    // It comes before all others, and what it says is fixed.
    let exempt = cluster.object(&schemas, "", "exempt").filter(|_| user.is_in(MASTERS));
    let schema = exempt.or_else(|| {
        let all = cluster.objects(&schemas, None);
        let meant = all.into_iter().filter(|schema| matches(schema, user, attributes));
        meant.min_by_key(|schema| schema["spec"]["matchingPrecedence"].as_u64())
    })?;
    let level = schema.text("/spec/priorityLevelConfiguration/name");
    let level = cluster.object(&GroupResource::new(FLOW_CONTROL_GROUP, "prioritylevelconfigurations"), "", level)?;
    let uid = |object: &Json| metadata::uid(object).to_owned();
    Some(Flow { schema: uid(&schema), level: uid(&level) })
}

fn matches(schema: &Json, user: &User, attributes: &Attributes<'_>) -> bool {
    items(&schema["spec"], "rules").any(|rule| {
        let covers = match attributes {
            Attributes::Path { verb, path } => {
                items(rule, "nonResourceRules").any(|rule| covers_path(rule, verb, path))
            }
            Attributes::Resource { verb, path, .. } => items(rule, "resourceRules").any(|rule| {
                let scope = match path.namespace.as_str() {
                    "" => rule["clusterScope"] == true,
                    namespace => has(rule, "namespaces", namespace),
                };
                scope
                    && has(rule, "verbs", verb)
                    && has(rule, "apiGroups", &path.group)
                    && has(rule, "resources", &path.full_resource())
            }),
        };
        covers && items(rule, "subjects").any(|subject| is_meant(subject, user))
    })
}

fn covers_path(rule: &Json, verb: &str, path: &str) -> bool {
    let covers = |url: &str| match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    };
    has(rule, "verbs", verb) && list(rule, "nonResourceURLs").any(covers)
}

fn is_meant(subject: &Json, user: &User) -> bool {
    match subject.text("/kind") {
        "User" => ["*", &user.name].contains(&subject.text("/user/name")),
        "Group" => match subject.text("/group/name") {
            "*" => true,
            name => user.is_in(name),
        },
        "ServiceAccount" => {
            let account = user.name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
            account.is_some_and(|(namespace, name)| {
                namespace == subject.text("/serviceAccount/namespace")
                    && ["*", name].contains(&subject.text("/serviceAccount/name"))
            })
        }
        _ => false,
    }
}

fn has(rule: &Json, field: &str, wanted: &str) -> bool {
    list(rule, field).any(|item| item == "*" || item == wanted)
}

fn items<'a>(value: &'a Json, field: &str) -> impl Iterator<Item = &'a Json> {
    value[field].list("")
}

/// The texts of a list in a rule.
fn list<'a>(rule: &'a Json, field: &str) -> impl Iterator<Item = &'a str> {
    items(rule, field).filter_map(Json::as_str)
}

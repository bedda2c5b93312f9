//! Configurations of webhooks and policies, which are stored and have no effect.

mod policy;
mod policy_binding;
mod webhooks;

pub(super) use policy::AdmissionPolicy;
pub(super) use policy_binding::PolicyBinding;
pub(super) use webhooks::Webhooks;

use pintle_json::Json;

use crate::object::{default, items, member};

fn fill_match(rules: &mut Json) {
    member(rules, "namespaceSelector");
    member(rules, "objectSelector");
    default(rules, "matchPolicy", "Equivalent");
    for key in ["resourceRules", "excludeResourceRules"] {
        items(rules, key).for_each(|rule| default(rule, "scope", "*"));
    }
}

//! Webhook configurations and admission policies. The webhook configurations have no effect.

mod match_errors;
mod policy;
mod policy_binding;
mod policy_errors;
mod webhook_errors;
mod webhooks;

pub(super) use policy::AdmissionPolicy;
pub(super) use policy_binding::PolicyBinding;
pub(super) use webhooks::Webhooks;

use pintle_json::Json;

fn fill_match(rules: &mut Json) {
    rules.member("namespaceSelector");
    rules.member("objectSelector");
    rules.set_default("matchPolicy", "Equivalent");
    for key in ["resourceRules", "excludeResourceRules"] {
        rules.items_mut(key).for_each(|rule| rule.set_default("scope", "*"));
    }
}

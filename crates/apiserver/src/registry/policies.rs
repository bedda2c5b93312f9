//! The admission plugins that evaluate CEL policies or call webhooks.

mod authorizer;
mod mutating;
mod namespace;
mod param_rights;
mod params;
mod request;
mod review;
mod validating;
mod webhooks;

pub(super) use mutating::{Reinvocation, mutate};
pub(super) use param_rights::ParamRights;
use pintle_kinds::Kind;
pub(super) use validating::ValidatingPolicies;
pub(super) use webhooks::{ValidatingWebhooks, WebhookKey, call_mutating};

use super::Registry;

/// Returns `true` if admission policies never apply to the kind. Without these exceptions, a policy could prevent its
/// own deletion, or block all authentication and authorization.
fn is_exempt(kind: &Kind) -> bool {
    const REVIEWS: [&str; 6] = [
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    ];
    match kind.group.as_str() {
        "admissionregistration.k8s.io" => kind.strategy.openapi().is_none(),
        "authentication.k8s.io" | "authorization.k8s.io" => REVIEWS.contains(&kind.plural.as_str()),
        _ => false,
    }
}

impl Registry {
    pub(crate) fn has_policies(&self) -> bool {
        !self.policies.validating(&self.db).is_empty() || !self.policies.mutating(&self.db).is_empty()
    }
}

//! The admission plugins for policies in CEL.

mod authorizer;
mod mutating;
mod params;
mod request;
mod review;
mod validating;

pub(super) use mutating::{Reinvocation, mutate};
pub(super) use validating::ValidatingPolicies;

use super::Registry;

impl Registry {
    /// Returns whether any admission policy has a binding.
    pub(crate) fn has_policies(&self) -> bool {
        !self.policies.validating(&self.db).is_empty() || !self.policies.mutating(&self.db).is_empty()
    }
}

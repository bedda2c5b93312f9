//! The `Lease` kind in `coordination.k8s.io/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};
use pintle_json::Json;
use pintle_kinds::Strategy;

/// The only built-in strategy for coordinated leader election in Kubernetes.
pub(crate) const OLDEST_EMULATION_VERSION: &str = "OldestEmulationVersion";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    /// `true` if coordinated leader election is enabled. New leases can then contain a strategy or a preferred holder.
    pub(crate) coordinated: bool,
}

impl Lease {
    /// If coordinated leader election is disabled, removes its fields from the lease, except for fields that the old
    /// lease already has.
    fn drop_coordination(self, object: &mut Json, old: &Json) {
        for key in ["strategy", "preferredHolder"].into_iter().filter(|_| !self.coordinated) {
            let had = old.has(&format!("/spec/{key}"));
            if let Some(spec) = object.member("spec").filter(|_| !had) {
                spec.unset(key);
            }
        }
    }
}

impl Strategy for Lease {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        self.drop_coordination(object, &Json::Null);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, _: Subresource) {
        self.drop_coordination(new, old);
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let number = |key: &str| object.at(&format!("/spec/{key}")).filter(|value| value.is_i64() || value.is_u64());
        if let Some(seconds) =
            number("leaseDurationSeconds").filter(|seconds| seconds.as_i64().is_some_and(|seconds| seconds <= 0))
        {
            errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
        }
        if let Some(count) = number("leaseTransitions").filter(|count| count.as_i64().is_some_and(|count| count < 0)) {
            errors.push(FieldError::invalid("spec.leaseTransitions", count, "must be greater than or equal to 0"));
        }
        let strategy = object["spec"]["strategy"].as_str();
        errors.extend(strategy.into_iter().flat_map(strategy_errors));
        if !object.text("/spec/preferredHolder").is_empty() && strategy.unwrap_or_default().is_empty() {
            errors
                .push(FieldError::forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"));
        }
        errors
    }
}

/// Validates the strategy. As in Kubernetes, the error path for an invalid strategy contains the field name twice.
pub(crate) fn strategy_errors(strategy: &str) -> FieldErrors {
    const FIELD: &str = "spec.strategy.strategy";
    match strategy.contains('/') {
        true => {
            let why = qualified_name_faults(strategy);
            why.into_iter().map(|why| FieldError::invalid_text(FIELD, strategy, why)).collect()
        }
        false if strategy == OLDEST_EMULATION_VERSION => FieldErrors::default(),
        false => {
            FieldErrors::from([FieldError::unsupported(FIELD, &Json::from(strategy), &[OLDEST_EMULATION_VERSION])])
        }
    }
}

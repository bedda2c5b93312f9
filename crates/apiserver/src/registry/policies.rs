//! The admission policies in CEL.

mod authorizer;
mod mutating;
mod params;
mod request;
mod review;
mod validating;

pub(super) use mutating::{Reinvocation, mutate};
pub(super) use validating::ValidatingPolicies;

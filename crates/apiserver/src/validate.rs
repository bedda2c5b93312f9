//! What makes an object invalid, as far as all kinds share it: names, labels, annotations, owners, finalizers.

mod fault;
mod metadata;
mod names;
#[cfg(test)]
mod tests;

pub(crate) use fault::{FaultReason, FieldFault};
pub(crate) use metadata::{metadata, metadata_update, metadata_warnings};
pub(crate) use names::{NameRule, name_faults};
// A key of a label is what Kubernetes calls a qualified name, where it asks for one elsewhere.
pub(crate) use pintle_meta::{label_key_faults, label_key_faults as qualified_name_faults, label_value_faults};

//! The core `Pod` kind: defaults, admission plugins and validation.

mod affinity;
mod binding;
mod container;
mod container_warnings;
mod defaults;
mod environment;
mod eviction;
mod field_source;
mod file_path;
mod gated;
mod handlers;
mod mounts;
mod mutable;
mod network;
mod operating_system;
pub(crate) mod placing;
mod pod_warnings;
mod port_names;
mod priority;
mod projected;
mod qos;
mod resize;
mod resource_amounts;
mod runtime;
mod security;
mod spec;
mod status_errors;
mod status_resources;
mod stream;
mod summary;
pub(crate) mod template_warnings;
#[cfg(test)]
mod tests;
mod topology;
mod volume_paths;
pub(crate) mod volume_plugins;
mod volumes;

use pintle_admission::policy::name_of;
use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, restore_member, set_metadata};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::post_handler::PostHandler;
use pintle_kinds::reset::Reset;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_kinds::{Strategy, Stream};
use pintle_meta::GroupResource;

use crate::warnings;

pub(crate) use binding::Binding;
pub(crate) use defaults::{fill_plugins, pod_template};
pub(crate) use file_path::descending;
pub(crate) use pod_warnings::plugin;
pub(crate) use port_names::port_name_errors;
pub(crate) use priority::{SYSTEM_CLASSES, default_priority_class};
pub(crate) use resource_amounts::{
    is_exact_resource, limit_errors, name_of_resource as resource_name_errors,
    resource_errors as container_resource_errors,
};
pub(crate) use spec::{template as validate_template, template_metadata};
pub(crate) use volumes::{host_path, template_metadata_errors};

const PODS: &str = "pods";

#[derive(Clone, Copy, Debug)]
enum SpecOwner<'a> {
    /// A pod with this name, which may be empty.
    Pod(&'a str),
    /// A pod template, for which some validation rules are weaker.
    Template,
}

pub(crate) struct Pod;

impl Strategy for Pod {
    fn field_label<'a>(&self, label: &'a str) -> &'a str {
        if label == "spec.host" { "spec.nodeName" } else { label }
    }

    fn defaults(&self, pod: &mut Json) {
        defaults::pod(pod);
        mutable::complete_addresses(pod);
    }

    fn prepare_for_create(&self, context: &Context<'_>, pod: &mut Json) {
        let mut status = json!({"phase": "Pending", "qosClass": qos::class(pod)});
        if pod.list("/spec/schedulingGates").next().is_some() {
            let condition = json!({
                "type": "PodScheduled", "status": "False", "lastProbeTime": null, "lastTransitionTime": context.time(),
                "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
            });
            status.set("conditions", json!([condition]));
        }
        pod.set("status", status);
    }

    fn prepare_for_update(&self, _: &Context<'_>, pod: &mut Json, old: &Json, subresource: Subresource) {
        match subresource {
            Subresource::Status => {
                keep_metadata(pod, old, &["ownerReferences", "deletionTimestamp"]);
                mutable::keep_class(pod, old);
                // The feature gate of this field is off by default.
                if let Some(status) = pod.get_mut("status") {
                    status.unset("nodeAllocatableResourceClaimStatuses");
                }
            }
            Subresource::EphemeralContainers => {
                keep_metadata(pod, old, OTHER_METADATA);
                mutable::take_ephemeral_containers(pod, old);
            }
            Subresource::Resize => {
                keep_metadata(pod, old, OTHER_METADATA);
                resize::take_resources(pod, old);
            }
            _ => restore_member(pod, old, "status"),
        }
    }

    fn admit(
        &self,
        cluster: &dyn Cluster,
        object: &mut Json,
        old: Option<&Json>,
        subresource: Subresource,
    ) -> Outcome<()> {
        match subresource {
            Subresource::None => {
                if old.is_none() {
                    topology::label(cluster, "/spec/nodeName", object);
                }
                priority::admit(cluster, object, old)
            }
            // As in kube-apiserver, the plugin PodTopologyLabels handles only bindings to a Node, and only POST requests
            // to the subresource.
            Subresource::Binding if object.text("/target/kind") == "Node" => {
                topology::label(cluster, "/target/name", object);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn validate_admitted(
        &self,
        cluster: &dyn Cluster,
        pod: &Json,
        old: Option<&Json>,
        subresource: Subresource,
    ) -> Outcome<()> {
        if old.is_none() && subresource == Subresource::None { runtime::check_overhead(cluster, pod) } else { Ok(()) }
    }

    fn grace(&self, pod: &Json, requested: Option<i64>) -> i64 {
        let left = metadata::grace_seconds(pod).filter(|_| metadata::is_deleting(pod));
        let own = pod.integer("/spec/terminationGracePeriodSeconds").unwrap_or(30);
        let requested = requested.or(left).unwrap_or(own);
        let requested = if requested < 0 { 1 } else { requested };
        let unscheduled = pod.text("/spec/nodeName").is_empty();
        let over = matches!(pod.text("/status/phase"), "Succeeded" | "Failed") && left.is_none();
        if unscheduled || over { 0 } else { left.map_or(requested, |left| requested.min(left)) }
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        let binds = old.text("/spec/nodeName").is_empty() && !new.text("/spec/nodeName").is_empty();
        !binds && new.get("spec") != old.get("spec")
    }

    fn validate_create(&self, pod: &Json) -> FieldErrors {
        let mut errors = spec::pod(pod);
        if pod.list("/spec/ephemeralContainers").next().is_some() {
            errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
        }
        if !pod.text("/spec/nodeName").is_empty() && pod.list("/spec/schedulingGates").next().is_some() {
            let why = "cannot be set until all schedulingGates have been cleared";
            errors.push(FieldError::forbidden("spec.nodeName", why));
        }
        errors
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        mutable::errors(new, old, subresource)
    }

    fn warnings(&self, pod: &Json, old: Option<&Json>, subresource: Subresource) -> Vec<String> {
        let mut found = Vec::new();
        if old.is_none() {
            found.extend(template_warnings::name(pod, "the Pod's hostname"));
            found.extend(pod_warnings::pod(pod, ""));
        }
        // Updates of the spec cause no warnings, because most fields cannot change.
        if subresource == Subresource::Status {
            for key in ["podIPs", "hostIPs"] {
                for (at, entry) in pod.list(&format!("/status/{key}")).enumerate() {
                    found.extend(warnings::ip(entry.text("/ip"), &format!("status.{key}[{at}].ip")));
                }
            }
        }
        found
    }

    fn post_handler(&self, subresource: Subresource) -> Option<&dyn PostHandler> {
        match subresource {
            Subresource::Binding => Some(&Binding),
            Subresource::Eviction => Some(&eviction::Eviction),
            _ => None,
        }
    }

    fn stream(&self, subresource: Subresource) -> Option<Stream> {
        stream::of(subresource)
    }

    fn read_kinds(&self, subresource: Subresource) -> &'static [(&'static str, &'static str)] {
        match subresource {
            Subresource::Eviction => &[("policy", "PodDisruptionBudget")],
            _ => &[
                ("scheduling.k8s.io", "PriorityClass"),
                ("node.k8s.io", "RuntimeClass"),
                ("", "LimitRange"),
                ("", "Node"),
            ],
        }
    }

    fn field(&self, pod: &Json, label: &str) -> Option<String> {
        Some(match label {
            "status.podIPs" => String::new(),
            "spec.hostNetwork" => pod.is_true("/spec/hostNetwork").to_string(),
            label => pintle_apimachinery::object::text(pod.at(&format!("/{}", label.replace('.', "/")))),
        })
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Ready", Cell::Computed(summary::ready)),
            ("Status", Cell::Computed(summary::status)),
            ("Restarts", Cell::Timed(summary::restarts)),
            ("Readiness Gates", Cell::Computed(summary::readiness_gates)),
        ]
    }

    fn reset_fields(&self, subresource: Subresource) -> Option<Reset> {
        const PATHS: Reset = &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]];
        (subresource == Subresource::Status).then_some(PATHS)
    }
}

fn forbidden(pod: &Json, why: &str) -> Failure {
    Failure::forbidden(&GroupResource::new("", PODS), &name_of(Some(pod)), why)
}

const OTHER_METADATA: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp"];

fn keep_metadata(pod: &mut Json, old: &Json, fields: &[&'static str]) {
    for &field in fields {
        set_metadata(pod, field, old["metadata"][field].clone());
    }
    if let Some(Json::Object(metadata)) = pod.get_mut("metadata") {
        metadata.retain(|_, value| !value.is_null());
    }
}

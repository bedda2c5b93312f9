//! Maintains the `Dangling` condition of FlowSchemas, which reports a missing PriorityLevelConfiguration.

use std::collections::BTreeSet;
use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::condition;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_json::{Json, json};
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, RequestTarget};
use pintle_storage::{Change, Key, Stored};
use tokio::time::Instant;

use super::{Controller, all};
use crate::registry::{Registry, UpdateSource};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
const LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";
/// The field manager that kube-apiserver uses to write the condition.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
const DANGLING: &str = "Dangling";

#[derive(Debug, Default)]
pub(super) struct Flows {
    due: BTreeSet<Key>,
    /// `true` if a PriorityLevelConfiguration was created or deleted since the last reconcile.
    levels: bool,
}

impl Controller for Flows {
    const RESOURCES: Option<&'static [&'static str]> = Some(&[SCHEMAS, LEVELS]);

    fn observe(&mut self, change: &Change) -> bool {
        match &**change.resource() {
            SCHEMAS => drop(self.due.insert(change.key.clone())),
            _ => self.levels = true,
        }
        true
    }

    fn resync(&mut self, _: &Registry) {
        self.levels = true;
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let mut due = std::mem::take(&mut self.due);
        if std::mem::take(&mut self.levels) {
            due.extend(all(registry, SCHEMAS).map(|(key, _)| key));
        }
        // In a plan, the upstream cluster maintains its own FlowSchemas.
        if registry.db.is_mirror() {
            return None;
        }
        let kinds = registry.kinds();
        let kind = kinds.group_kind(GROUP, "FlowSchema")?;
        for key in due {
            let Some(stored) = registry.db.get(SCHEMAS, &key) else { continue };
            if let Err(failure) = reconcile(registry, kind, &key, &stored) {
                tracing::debug!(name = %key, error = failure.status.message, "cannot write a FlowSchema");
            }
        }
        None
    }
}

fn reconcile(registry: &Registry, kind: &Arc<Kind>, name: &str, stored: &Stored) -> Outcome<()> {
    let object = stored.only(&["spec.priorityLevelConfiguration", "status"]);
    let level = object.text("/spec/priorityLevelConfiguration/name");
    let mut wanted = dangling(level, registry.db.get(LEVELS, level).is_some());
    let current = condition(&object, DANGLING);
    let differs = |field: &str| current.is_none_or(|current| current.get(field) != wanted.get(field));
    if !["status", "reason", "message"].into_iter().any(differs) {
        return Ok(());
    }
    // The transition time changes only when the condition's status changes.
    let since = current.filter(|_| !differs("status")).and_then(|current| current.get("lastTransitionTime").cloned());
    let now = registry.clock.now_text();
    wanted.set("lastTransitionTime", since.unwrap_or_else(|| now.clone().into()));
    let applied = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {"name": name},
        "status": {"conditions": [wanted]},
    });
    let options = WriteOptions { field_manager: MANAGER.into(), force: true, ..WriteOptions::default() };
    let by = Writer::new(&options, "", now);
    let make = |live: Option<&Json>| match live {
        Some(live) => by.apply(kind, Some(live), &applied, Subresource::Status),
        None => Err(Failure::not_found(&kind.resource(), name)),
    };
    let target = RequestTarget { subresource: Subresource::Status, ..RequestTarget::new(kind.clone(), "", name) };
    registry.update(&target, &UpdateSource::Apply(&make), &by).map(drop)
}

fn dangling(level: &str, exists: bool) -> Json {
    let (status, reason, rest) =
        if exists { ("False", "Found", "and it exists") } else { ("True", "NotFound", "but there is no such object") };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {rest}");
    json!({"type": DANGLING, "status": status, "reason": reason, "message": message})
}

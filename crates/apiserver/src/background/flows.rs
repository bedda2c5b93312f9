//! FlowSchemas: the status of each says whether its PriorityLevelConfiguration is there.

use std::collections::BTreeSet;
use std::sync::Arc;

use pintle_json::{Json, json};
use tokio::time::Instant;

use super::{Controller, all};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, RequestTarget};
use crate::object::condition;
use crate::registry::{Registry, UpdateSource, Writer};
use crate::request::Subresource;
use crate::request::options::WriteOptions;
use crate::store::{Change, Key, Stored};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
const LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";
/// The field manager that applies the condition in a real server.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
const DANGLING: &str = "Dangling";

/// Looks after the condition `Dangling`.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// The FlowSchemas that have changed.
    due: BTreeSet<Key>,
    /// Whether a PriorityLevelConfiguration has come or gone.
    levels: bool,
}

impl Controller for Flows {
    const OF: Option<&'static [&'static str]> = Some(&[SCHEMAS, LEVELS]);

    fn observe(&mut self, change: &Change) -> bool {
        match &**change.resource() {
            SCHEMAS => drop(self.due.insert(change.key.clone())),
            _ => self.levels = true,
        }
        true
    }

    fn look_anew(&mut self, _: &Registry) {
        self.levels = true;
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let mut due = std::mem::take(&mut self.due);
        if std::mem::take(&mut self.levels) {
            due.extend(all(registry, SCHEMAS).map(|(key, _)| key));
        }
        // Those of another cluster are for that to look after.
        if registry.db.is_mirror() {
            return None;
        }
        let kinds = registry.kinds();
        let kind = kinds.group_kind(GROUP, "FlowSchema")?;
        for key in due {
            let Some(stored) = registry.db.get(SCHEMAS, &key) else { continue };
            if let Err(failure) = put_right(registry, kind, &key, &stored) {
                tracing::debug!(name = %key, message = failure.status.message, "a FlowSchema could not be written");
            }
        }
        None
    }
}

/// Applies the condition if it is not there, or wrong.
fn put_right(registry: &Registry, kind: &Arc<Kind>, name: &str, stored: &Stored) -> Outcome<()> {
    let object = stored.only(&["spec.priorityLevelConfiguration", "status"]);
    let level = object.text("/spec/priorityLevelConfiguration/name");
    let mut wanted = dangling(level, registry.db.get(LEVELS, level).is_some());
    let is = condition(&object, DANGLING);
    let differs = |field: &str| is.is_none_or(|is| is.get(field) != wanted.get(field));
    if !["status", "reason", "message"].into_iter().any(differs) {
        return Ok(());
    }
    // The time is that of the last change of the status alone.
    let since = is.filter(|_| !differs("status")).and_then(|is| is.get("lastTransitionTime").cloned());
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

/// The condition, without its time.
fn dangling(level: &str, exists: bool) -> Json {
    let (status, reason, rest) = match exists {
        true => ("False", "Found", "and it exists"),
        false => ("True", "NotFound", "but there is no such object"),
    };
    let message = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?} {rest}");
    json!({"type": DANGLING, "status": status, "reason": reason, "message": message})
}

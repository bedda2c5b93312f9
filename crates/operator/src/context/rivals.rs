//! Checks whether this controller and another writer take turns in writing the same fields.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_meta::{ApiError, ApiResource, Resource};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::Context;
use crate::contention::taken_fields;
use crate::rivals::Rival;
use crate::shared::read_raw;

/// The timeout of a read request, which delays the reconciliation.
const LONGEST: Duration = Duration::from_secs(1);

/// The maximum number of fields in a report.
const NAMED: usize = 3;

/// A check of an object that another writer keeps changing. The check compares the object before and after the
/// reconciliation.
pub(crate) struct RivalCheck {
    rival: Rival,
    resource: ApiResource,
    turns: usize,
    before: Value,
}

impl<K: Resource> Context<K> {
    /// Counts a change by another writer, and reads the object from the server if a check is due.
    pub(crate) async fn begin_check(&self) -> Option<RivalCheck> {
        if !self.call.request.was_changed_by_another(self.field_manager()) {
            return None;
        }
        let history = self.call.request.history()?;
        let now = Instant::now();
        let due = self.shared.rivals.lock().turn(self.key(), &history.causes, self.field_manager(), now);
        let (rival, turns) = due?;
        let (type_id, resource) = self.shared.caches.resource(&rival.source)?.clone();
        let applied = self.shared.applied.lock().get(self.key());
        let reverts = applied.map_or(0, |applied| applied.lock().reverts(type_id, &rival.object, now));
        // Skip this check if applies cause most of the reverts, because these reverts are counted and reported
        // separately.
        if 2 * reverts >= turns {
            return None;
        }
        let before = self.read_contended(&resource, &rival, turns).await?;
        Some(RivalCheck { rival, resource, turns, before })
    }

    /// Reads the object again, and checks whether the reconciliation has taken fields from the other writer. If fields
    /// were taken, reports both writers and the fields in the log and as an Event.
    pub(crate) async fn finish_check(&self, check: RivalCheck) {
        let RivalCheck { rival, resource, turns, before } = check;
        let Some(after) = self.read_contended(&resource, &rival, turns).await else { return };
        let fields = taken_fields(&before, &after, self.field_manager(), &rival.manager);
        self.shared.rivals.lock().checked(&rival, !fields.is_empty());
        if !fields.is_empty() {
            let often = often(&rival, turns);
            self.report_contention(&rival.manager, &named(&fields), &resource.kind, &rival.object, &often);
        }
    }

    /// Reads an object from the server. If the object cannot be read, for example because the role lacks the verb
    /// `get`, logs the writers without the fields and returns `None`.
    async fn read_contended(&self, resource: &ApiResource, rival: &Rival, turns: usize) -> Option<Value> {
        let (key, kind) = (&rival.object, &resource.kind);
        let read = timeout(LONGEST, read_raw(self.cluster(), resource, key)).await;
        match read.unwrap_or_else(|_| Err(ApiError::timeout(format!("no answer within {LONGEST:?}")))) {
            Ok(object) => Some(object),
            Err(error) => {
                let (own, other, often) = (self.field_manager(), &rival.manager, often(rival, turns));
                tracing::warn!(
                    %error,
                    "{own} and {other} both change {kind} {key}, perhaps the same fields: {often}; cannot read the object to compare its fields"
                );
                None
            }
        }
    }
}

fn often(rival: &Rival, turns: usize) -> String {
    format!("{turns} changes by {} in the last minute", rival.manager)
}

fn named(fields: &BTreeSet<String>) -> String {
    let named = fields.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match fields.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} other fields"),
    }
}

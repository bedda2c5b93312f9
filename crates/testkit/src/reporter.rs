//! Reports the errors of a running process.

use std::collections::VecDeque;
use std::time::SystemTime;

use pintle_controller::{CauseReason, ControllerStatus, EventChange, Explanation, KeyCause, ManagerStatus};
use pintle_informer::InformerFactory;
use pintle_operator::Manager;

const SHOWN: usize = 5;

#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    status: ManagerStatus,
    informers: InformerFactory,
}

#[derive(Clone, Debug)]
pub(crate) struct FailedCall {
    pub(crate) controller: String,
    pub(crate) key: String,
    began: SystemTime,
    pub(crate) text: String,
}

impl Reporter {
    pub(crate) fn of(manager: &Manager) -> Self {
        Self { status: manager.status(), informers: manager.cluster().informers().clone() }
    }

    pub(crate) fn failed_calls(&self) -> Vec<FailedCall> {
        let controllers = self.status.controllers();
        controllers.iter().flat_map(|controller| failed_calls(controller, usize::MAX)).collect()
    }

    pub(crate) fn has_called_since(&self, call: &FailedCall) -> bool {
        let explained = self.status.controller(&call.controller).and_then(|controller| controller.explain(&call.key));
        let last = explained.and_then(|explained| explained.history?.last_call);
        last.is_some_and(|last| last.at > call.began)
    }

    /// Returns the errors of the last reconciliations, the sources that have not synced, and the informers with
    /// undecodable objects.
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for controller in self.status.controllers() {
            errors.extend(failed_calls(&controller, SHOWN).map(|call| call.text));
            let waits = |(source, problem): (String, String)| {
                format!("controller {:?} waits for its source {source:?}: {problem}", controller.name())
            };
            errors.extend(controller.unsynced().into_iter().map(waits));
        }
        for informer in self.informers.informers() {
            if let Some(first) = informer.first_undecodable {
                let (name, count) = (informer.name, informer.undecodable);
                errors.push(format!("informer {name:?} cannot decode {count} objects, such as {first}"));
            }
        }
        errors
    }

    /// Returns `true` if the newest event for the object with the key `key` is its deletion.
    pub(crate) fn was_deleted(&self, controller: &str, key: &str) -> bool {
        let Some(controller) = self.status.controller(controller) else { return false };
        // Use the first source, which contains the reconciled objects. Other sources may contain a child with the same
        // key.
        let Some((objects, _)) = controller.sources().into_iter().next() else { return false };
        let history = controller.explain(key).and_then(|explained| explained.history);
        history.is_some_and(|history| newest_change(&history.causes, &objects, key) == Some(EventChange::Deleted))
    }
}

fn failed_calls(controller: &ControllerStatus, limit: usize) -> impl Iterator<Item = FailedCall> {
    let failing = controller.most_failing(limit).into_iter();
    failing.filter_map(|Explanation { key, history, .. }| {
        let last = history?.last_call?;
        let error = last.error?;
        let text = format!("controller {:?} fails for {key}: {error}", controller.name());
        Some(FailedCall { controller: controller.name().into(), key, began: last.at, text })
    })
}

fn newest_change(causes: &VecDeque<KeyCause>, from: &str, key: &str) -> Option<EventChange> {
    causes.iter().rev().find_map(|cause| match &cause.reason {
        CauseReason::Event { source, change, object, .. } if **source == *from && object.as_str() == key => {
            Some(*change)
        }
        _ => None,
    })
}

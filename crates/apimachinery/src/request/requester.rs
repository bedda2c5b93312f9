//! The user of a request. This module stores the user of a request together with the request's deadline, warnings and
//! audit annotations.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::time::Instant;

use super::user::User;
use super::webhook_calls::WebhookCalls;
use crate::failure::{Failure, Outcome};

/// The maximum number of stored warnings. Only a small part of these warnings fits into a response.
const MAX_WARNINGS: usize = 1024;

/// The user of a request. All clones share the warnings and the annotations. Even if the request fails, the warnings
/// are sent and the annotations are recorded.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    pub user: User,
    /// The deadline of the request, if it has one.
    pub deadline: Option<Instant>,
    /// The webhook calls of the request. The field is `None` if the request does not call webhooks. Writes by the server itself do not call
    /// webhooks.
    pub webhooks: Option<WebhookCalls>,
    notes: Arc<Mutex<Notes>>,
}

/// The warnings and the annotations of a request.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    warnings: Vec<String>,
    known: HashSet<String>,
    annotations: BTreeMap<String, String>,
}

impl Requester {
    pub fn new(user: User) -> Self {
        Self { user, ..Self::default() }
    }

    /// Returns whether the deadline has passed. After the deadline, the client has already received a timeout.
    pub fn is_timed_out(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns an error if the deadline has passed. This error prevents writes by a request that has already timed out. Therefore, a retry
    /// by the client rarely conflicts with the first attempt.
    pub fn check_time(&self) -> Outcome<()> {
        if self.is_timed_out() { Err(Failure::too_late()) } else { Ok(()) }
    }

    /// Returns a copy of the current warnings and annotations, or `None` if the request does not call webhooks. Call this method before an
    /// attempt that a webhook call can interrupt.
    pub fn notes_before_attempt(&self) -> Option<Notes> {
        self.webhooks.as_ref().map(|_| self.notes().clone())
    }

    /// Removes the warnings and annotations that an interrupted attempt has added.
    pub fn restore_notes(&self, before: Option<Notes>) {
        if let Some(before) = before {
            *self.notes() = before;
        }
    }

    /// Returns an error if the attempt needs a conversion that a webhook has not done yet, or that has failed. Such an attempt must not
    /// write.
    pub fn check_conversions(&self) -> Outcome<()> {
        let Some(calls) = &self.webhooks else { return Ok(()) };
        if let Some(why) = calls.take_failed() {
            return Err(Failure::plain(500, why));
        }
        if calls.is_missing() { Err(Failure::waiting()) } else { Ok(()) }
    }

    /// Returns the uid of the object that the request creates. If the request calls webhooks, all attempts use the same uid.
    pub fn uid(&self, generate: impl FnOnce() -> String) -> String {
        match &self.webhooks {
            None => generate(),
            Some(calls) => calls.uid(generate),
        }
    }

    /// Returns the time of the write. If the request calls webhooks, all attempts use the same time.
    pub fn now(&self, read: impl FnOnce() -> Timestamp) -> Timestamp {
        match &self.webhooks {
            None => read(),
            Some(calls) => calls.now(read),
        }
    }

    /// Returns the generated name with the index `at`. If the request calls webhooks, all attempts get the same name for the same index.
    pub fn generated_name(&self, at: usize, generate: impl FnOnce() -> String) -> String {
        match &self.webhooks {
            None => generate(),
            Some(calls) => calls.generated_name(at, generate),
        }
    }

    /// Adds a warning to the response. Repeated warnings are dropped.
    pub fn warn(&self, text: String) {
        let mut notes = self.notes();
        if notes.warnings.len() < MAX_WARNINGS && notes.known.insert(text.clone()) {
            notes.warnings.push(text);
        }
    }

    /// Adds an annotation to the audit record of the request.
    pub fn annotate(&self, key: &str, value: String) {
        self.notes().annotations.insert(key.into(), value);
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.notes().warnings)
    }

    pub fn take_annotations(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.notes().annotations)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

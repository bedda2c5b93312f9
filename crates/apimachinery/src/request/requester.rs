//! The requesting user, and data of the request such as its deadline and warnings.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, MutexGuard, OnceLock};

use jiff::Timestamp;
use pintle_meta::__private::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::user::User;
use super::webhook_calls::WebhookCalls;
use crate::failure::{Failure, Outcome};

/// The maximum number of stored warnings. A response can contain only a few of them.
const MAX_WARNINGS: usize = 1024;

/// The requesting user, and data that all attempts to process the request share. Clones share the warnings, the
/// annotations, the webhook calls and the permit. The server sends the warnings and records the annotations even if the
/// request fails.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    pub user: User,
    /// The request's deadline, if any.
    pub deadline: Option<Instant>,
    shared: Arc<SharedState>,
}

#[derive(Debug, Default)]
struct SharedState {
    notes: Mutex<Notes>,
    webhooks: OnceLock<WebhookCalls>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

/// The warnings and annotations of a request.
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

    /// Returns `true` if the deadline has passed, which means that the client has already received a timeout response.
    pub fn is_timed_out(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns an error if the deadline has passed. A request that has timed out must not write, because the write
    /// could conflict with the client's retry.
    pub fn check_time(&self) -> Outcome<()> {
        if self.is_timed_out() { Err(Failure::too_late()) } else { Ok(()) }
    }

    /// Returns the webhook calls of the request, or `None` if the request calls no webhooks, like most of
    /// the server's own writes.
    pub fn webhooks(&self) -> Option<&WebhookCalls> {
        self.shared.webhooks.get()
    }

    /// Allows this and all later attempts to process the request to call webhooks.
    pub fn allow_webhooks(&self) -> &WebhookCalls {
        self.shared.webhooks.get_or_init(WebhookCalls::default)
    }

    /// Keeps the permit to process the request's body until the request ends or releases the permit.
    pub fn keep_permit(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.permit() = permit;
    }

    /// Gives back the permit that was needed to process the body of the request. Call this method before a long wait,
    /// because other requests need permits for their bodies.
    pub fn release_permit(&self) {
        self.keep_permit(None);
    }

    /// Waits for another server without the permit to process the request's body. After the wait, acquires an equal
    /// permit, because the next attempt processes the body again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `wait`, and leaves the requester without a permit.
    pub async fn without_permit<T>(&self, wait: impl Future<Output = T>) -> T {
        let released = self.permit().take().map(|permit| (permit.semaphore().clone(), permit.num_permits()));
        let result = wait.await;
        if let Some((permits, size)) = released {
            // Acquiring a permit fails only if the semaphore is closed.
            self.keep_permit(permits.acquire_many_owned(u32::try_from(size).unwrap_or(u32::MAX)).await.ok());
        }
        result
    }

    /// Returns a copy of the current warnings and annotations, or `None` if the request calls no webhooks. Call this
    /// method before each attempt to process the request, because a webhook call can end the attempt early.
    pub fn notes_before_attempt(&self) -> Option<Notes> {
        self.webhooks().map(|_| self.notes().clone())
    }

    /// If a webhook call interrupted an attempt, restores the warnings and annotations from before the attempt.
    pub fn restore_notes(&self, before: Option<Notes>) {
        if let Some(before) = before {
            *self.notes() = before;
        }
    }

    /// Returns an error if a webhook conversion that the request needs is missing or has failed. The request must then
    /// not write anything.
    pub fn check_conversions(&self) -> Outcome<()> {
        let Some(calls) = self.webhooks() else { return Ok(()) };
        if let Some(why) = calls.take_conversion_error() {
            return Err(Failure::plain(500, why));
        }
        if calls.has_missing() { Err(Failure::waiting()) } else { Ok(()) }
    }

    /// Makes the request fail because a conversion that it needs has failed.
    pub fn fail_conversion(&self, why: String) {
        self.webhooks().into_iter().for_each(|calls| calls.fail_conversion(why.clone()));
    }

    /// Returns the uid for a new object, which is the same for all attempts to process the request.
    pub fn uid(&self, generate: impl FnOnce() -> String) -> String {
        match self.webhooks() {
            None => generate(),
            Some(calls) => calls.uid(generate),
        }
    }

    /// Returns the time of the write, which is the same for all attempts to process the request.
    pub fn now(&self, read: impl FnOnce() -> Timestamp) -> Timestamp {
        match self.webhooks() {
            None => read(),
            Some(calls) => calls.now(read),
        }
    }

    /// Returns the generated name with index `at`, which is the same for all attempts to process the request.
    pub fn generated_name(&self, at: usize, generate: impl FnOnce() -> String) -> String {
        match self.webhooks() {
            None => generate(),
            Some(calls) => calls.generated_name(at, generate),
        }
    }

    /// Adds a warning to the response, unless the response already contains the same warning.
    pub fn warn(&self, text: String) {
        let mut notes = self.notes();
        if notes.warnings.len() < MAX_WARNINGS && notes.known.insert(text.clone()) {
            notes.warnings.push(text);
        }
    }

    /// Adds an annotation to the request's audit record.
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
        self.shared.notes.lock()
    }

    fn permit(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.shared.permit.lock()
    }
}

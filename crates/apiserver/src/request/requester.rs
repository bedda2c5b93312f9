//! Who asks, and what is to be said beside the answer.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::user::User;
use crate::failure::{Failure, Outcome};

/// So many warnings are kept; a client is sent far fewer.
const MOST_REMARKS: usize = 1024;

/// Who asks. What the rules and admission have to say of the request is kept with it: also of one that is refused in the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requester {
    pub(crate) user: User,
    /// Until when somebody waits for what comes of it, if there is an end to that.
    pub(crate) until: Option<Instant>,
    remarks: Arc<Mutex<Remarks>>,
}

#[derive(Debug, Default)]
struct Remarks {
    warnings: Vec<String>,
    known: HashSet<String>,
    annotations: BTreeMap<String, String>,
}

impl Requester {
    pub(crate) fn new(user: User) -> Self {
        Self { user, ..Self::default() }
    }

    /// Whether the client has been told by now that it took too long.
    pub(crate) fn is_late(&self) -> bool {
        self.until.is_some_and(|end| Instant::now() >= end)
    }

    /// Fails if so: what is yet to be written then stays unwritten, so that a client which tries again seldom meets what it did itself.
    pub(crate) fn check_time(&self) -> Outcome<()> {
        if self.is_late() { Err(Failure::too_late()) } else { Ok(()) }
    }

    /// Has the client warned of something, once.
    pub(crate) fn warn(&self, text: String) {
        let mut remarks = self.remarks();
        if remarks.warnings.len() < MOST_REMARKS && remarks.known.insert(text.clone()) {
            remarks.warnings.push(text);
        }
    }

    /// Has the audit say something of the request.
    pub(crate) fn annotate(&self, key: &str, value: String) {
        self.remarks().annotations.insert(key.into(), value);
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.remarks().warnings)
    }

    pub(crate) fn take_annotations(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.remarks().annotations)
    }

    fn remarks(&self) -> MutexGuard<'_, Remarks> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Who asks, and what is to be said beside the answer.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::user::User;

/// So many warnings are kept; a client is sent far fewer.
const MOST_REMARKS: usize = 1024;

/// Who asks. What the rules and admission have to say of the request is kept with it: also of one that is refused in the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asker {
    pub(crate) user: User,
    remarks: Arc<Mutex<Remarks>>,
}

#[derive(Debug, Default)]
struct Remarks {
    warnings: Vec<String>,
    known: HashSet<String>,
    annotations: BTreeMap<String, String>,
}

impl Asker {
    pub(crate) fn new(user: User) -> Self {
        Self { user, ..Self::default() }
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

//! The error handlers of an informer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::panic::catch;
use crate::{ErrorHandler, ReflectorError};

/// The error handlers of an informer: that of its own configuration, and those of callers who share it.
#[derive(Default)]
pub(crate) struct ErrorHandlers {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    handlers: Vec<(u64, Arc<ErrorHandler>)>,
    added: u64,
}

/// An error handler that is called until this is dropped.
pub(crate) struct Listening {
    handlers: Weak<ErrorHandlers>,
    number: u64,
}

impl ErrorHandlers {
    /// Adds a handler for good. Returns its number.
    pub(crate) fn add(&self, handler: Arc<ErrorHandler>) -> u64 {
        let mut inner = self.lock();
        inner.added += 1;
        let number = inner.added;
        inner.handlers.push((number, handler));
        number
    }

    /// Adds a handler for as long as what is returned is there.
    pub(crate) fn listen(self: &Arc<Self>, handler: Arc<ErrorHandler>) -> Listening {
        Listening { number: self.add(handler), handlers: Arc::downgrade(self) }
    }

    /// Calls all handlers, under no lock. A panic of one is logged.
    pub(crate) fn call(&self, informer: &str, error: &ReflectorError) {
        let handlers = self.lock().handlers.clone();
        for (_, handler) in handlers {
            if let Err(panic) = catch(|| handler(error)) {
                tracing::error!(informer, panic, "the error handler panicked");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(handlers) = self.handlers.upgrade() else { return };
        let mut inner = handlers.lock();
        let gone = inner.handlers.iter().position(|(number, _)| *number == self.number);
        let gone = gone.map(|at| inner.handlers.remove(at));
        // The handler is a user's, and is dropped under no lock.
        drop(inner);
        drop(gone);
    }
}

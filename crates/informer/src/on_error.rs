//! The error handlers of an informer.

use std::sync::{Arc, Weak};

use pintle_meta::__private::Mutex;

use crate::config::ErrorHandler;
use crate::error::ReflectorError;
use crate::panic::catch;

/// The error handlers of an informer: the configured handler, and one handler for each caller that shares the informer.
#[derive(Default)]
pub(crate) struct ErrorHandlers {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    handlers: Vec<(u64, Arc<ErrorHandler>)>,
    added: u64,
}

pub(crate) struct Listening {
    handlers: Weak<ErrorHandlers>,
    number: u64,
}

impl ErrorHandlers {
    pub(crate) fn add(&self, handler: Arc<ErrorHandler>) -> u64 {
        let mut inner = self.inner.lock();
        inner.added += 1;
        let number = inner.added;
        inner.handlers.push((number, handler));
        number
    }

    pub(crate) fn listen(self: &Arc<Self>, handler: Arc<ErrorHandler>) -> Listening {
        Listening { number: self.add(handler), handlers: Arc::downgrade(self) }
    }

    /// Calls all handlers without holding the lock, and logs panics of the handlers.
    pub(crate) fn call(&self, informer: &str, error: &ReflectorError) {
        let handlers = self.inner.lock().handlers.clone();
        for (_, handler) in handlers {
            if let Err(panic) = catch(|| handler(error)) {
                tracing::error!(informer, panic, "an error handler panicked");
            }
            // If the handler was removed during the call, this drop runs the handler's `Drop` implementation, which is
            // user code.
            if let Err(panic) = catch(|| drop(handler)) {
                tracing::error!(informer, panic, "the Drop of an error handler panicked");
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(handlers) = self.handlers.upgrade() else { return };
        let mut inner = handlers.inner.lock();
        let gone = inner.handlers.iter().position(|(number, _)| *number == self.number);
        let gone = gone.map(|at| inner.handlers.remove(at));
        // Drop the values after releasing the lock, because dropping them can run user-defined `Drop` code.
        drop(inner);
        drop(gone);
    }
}

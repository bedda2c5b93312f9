//! Keeping new tokens for the next start of the program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pintle_meta::{Secret, TokenStore};
use tokio::sync::watch;

use crate::error::AuthError;
use crate::transport::in_one_line;

/// Has new tokens kept, on a thread of its own: one at a time, and nobody waits long for it, since a network file system may hang.
pub(super) struct Keeper(Arc<Shared>);

struct Shared {
    store: Arc<dyn TokenStore>,
    issuer: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is to be kept next.
    next: Option<Tokens>,
    /// Its other side is dropped when there is nothing left to be kept.
    keeping: Option<watch::Receiver<()>>,
}

/// The last that there are.
#[derive(Clone, PartialEq)]
pub(super) struct Tokens {
    /// Empty if there is none.
    pub(super) id: Secret,
    pub(super) refresh: Secret,
}

/// So often, and so far apart, new tokens are tried to be kept: another program may be writing the same file.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);
/// So long is waited for it at most.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

impl Keeper {
    /// `issuer` is for the log.
    pub(super) fn new(store: Arc<dyn TokenStore>, issuer: &str) -> Self {
        Self(Arc::new(Shared { store, issuer: issuer.into(), state: Mutex::default() }))
    }

    /// Has tokens kept, and waits for it for a while. It goes on when nobody waits, and tells the log why it comes to nothing.
    pub(super) async fn keep(&self, tokens: Tokens) {
        let mut end = self.begin(tokens);
        // That the other side is gone is what is waited for.
        if tokio::time::timeout(PATIENCE, end.changed()).await.is_err() {
            tracing::warn!("{}", self.0.fault(&format!("keeping its new tokens takes longer than {PATIENCE:?}")));
        }
    }

    fn begin(&self, tokens: Tokens) -> watch::Receiver<()> {
        let mut state = self.0.lock();
        state.next = Some(tokens);
        if let Some(keeping) = &state.keeping {
            return keeping.clone();
        }
        let (teller, end) = watch::channel(());
        state.keeping = Some(end.clone());
        let shared = self.0.clone();
        // Of its own: a runtime would wait for it at its end.
        let begun = thread::Builder::new().name("pintle-tokens".into()).spawn(move || {
            while let Some(tokens) = shared.next() {
                shared.keep(&tokens);
            }
            drop(teller);
        });
        if let Err(error) = begun {
            state.keeping = None;
            drop(state);
            tracing::warn!("{}", self.0.fault(&format!("its new tokens cannot be kept: {error}")));
        }
        end
    }
}

impl Shared {
    /// What is to be kept. Without anything, the thread is over.
    fn next(&self) -> Option<Tokens> {
        let mut state = self.lock();
        let next = state.next.take();
        if next.is_none() {
            state.keeping = None;
        }
        next
    }

    fn keep(&self, Tokens { id, refresh }: &Tokens) {
        for left in (0..TRIES).rev() {
            // It is somebody else's code.
            let stored = catch_unwind(AssertUnwindSafe(|| self.store.store(id, refresh)));
            let why = match stored {
                Ok(Ok(())) => return,
                Ok(Err(error)) => in_one_line(&*error),
                Err(_) => "the store panicked".into(),
            };
            if left == 0 {
                let why = format!("its new tokens cannot be kept, log in again after a restart: {why}");
                tracing::warn!("{}", self.fault(&why));
            } else {
                thread::sleep(PAUSE);
            }
        }
    }

    fn fault(&self, why: &str) -> AuthError {
        AuthError::Oidc { issuer: self.issuer.clone(), why: why.into() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics half-way while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

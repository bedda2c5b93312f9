//! Stores refreshed tokens, so that the program can use them after a restart.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use pintle_meta::{Secret, TokenStore};
use tokio::sync::watch;

use crate::error::{AuthError, in_one_line};

/// Stores new tokens on a background thread, one call of the token store after another. Callers wait only for a
/// limited time, because a network file system can hang.
pub(super) struct TokenWriter(Arc<Shared>);

struct Shared {
    store: Arc<dyn TokenStore>,
    issuer: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: Option<Tokens>,
    /// A channel that closes when the thread has stored all tokens, or `None` if no thread is running.
    keeping: Option<watch::Receiver<()>>,
}

#[derive(Clone, PartialEq)]
pub(super) struct Tokens {
    /// The ID token, which is empty if the issuer did not return one.
    pub(super) id: Secret,
    pub(super) refresh: Secret,
}

/// The maximum number of attempts to store tokens. An attempt may fail if another program is writing to the same file.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

impl TokenWriter {
    pub(super) fn new(store: Arc<dyn TokenStore>, issuer: &str) -> Self {
        Self(Arc::new(Shared { store, issuer: issuer.into(), state: Mutex::default() }))
    }

    /// Stores tokens on the background thread, and waits at most `TIMEOUT` for the result. After the timeout, the
    /// thread continues in the background. Failures are logged.
    pub(super) async fn keep(&self, tokens: Tokens) {
        let mut end = self.begin(tokens);
        if tokio::time::timeout(TIMEOUT, end.changed()).await.is_err() {
            tracing::warn!("{}", self.0.fault(&format!("storing its new tokens takes longer than {TIMEOUT:?}")));
        }
    }

    fn begin(&self, tokens: Tokens) -> watch::Receiver<()> {
        let mut state = self.0.state.lock();
        state.next = Some(tokens);
        if let Some(keeping) = &state.keeping {
            return keeping.clone();
        }
        let (sender, end) = watch::channel(());
        state.keeping = Some(end.clone());
        let shared = self.0.clone();
        // Use a separate thread, because a blocking task would delay the shutdown of the tokio runtime.
        let spawned = thread::Builder::new().name("pintle-tokens".into()).spawn(move || {
            while let Some(tokens) = shared.next() {
                shared.keep(&tokens);
            }
            drop(sender);
        });
        if let Err(error) = spawned {
            state.keeping = None;
            drop(state);
            tracing::warn!("{}", self.0.fault(&format!("its new tokens cannot be stored: {error}")));
        }
        end
    }
}

impl Shared {
    /// Returns the next tokens to store, or `None` if the thread must end because all tokens are stored.
    fn next(&self) -> Option<Tokens> {
        let mut state = self.state.lock();
        let next = state.next.take();
        if next.is_none() {
            state.keeping = None;
        }
        next
    }

    fn keep(&self, Tokens { id, refresh }: &Tokens) {
        for left in (0..TRIES).rev() {
            // The token store is user code and may panic.
            let stored = catch_unwind(AssertUnwindSafe(|| self.store.store(id, refresh)));
            let why = match stored {
                Ok(Ok(())) => return,
                Ok(Err(error)) => in_one_line(&*error),
                Err(_) => "the store panicked".into(),
            };
            if left == 0 {
                let why = format!("its new tokens cannot be stored, so log in again after a restart: {why}");
                tracing::warn!("{}", self.fault(&why));
            } else {
                thread::sleep(PAUSE);
            }
        }
    }

    fn fault(&self, why: &str) -> AuthError {
        AuthError::Oidc { issuer: self.issuer.clone(), why: why.into() }
    }
}

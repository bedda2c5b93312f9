//! Credentials that end, and are made anew by a task of the client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Login;
use crate::error::AuthError;
use crate::transport::ClientPair;

/// Where credentials come from.
pub(crate) trait Source: Send + Sync + 'static {
    /// Makes new ones.
    fn make(&self) -> impl Future<Output = Result<Credential, AuthError>> + Send;

    /// A failure of it, in an error's words.
    fn fault(&self, why: String) -> AuthError;

    /// Another certificate has taken the place of one that was shown for so long.
    fn certificate_replaced(&self, _age: Duration) {}
}

/// What a source gave.
pub(crate) struct Credential {
    pub(crate) header: Option<HeaderValue>,
    pub(crate) pair: Option<ClientPair>,
    /// None: when the server refuses it.
    pub(crate) expires: Option<SystemTime>,
}

/// Makes new credentials when there are none yet, shortly before they expire, and when the server refuses them; never twice at a time,
/// and all who wait get what one run gives. A run is a task of the client: a request that is given up does not end it, dropping the
/// client and the deadline do.
pub(crate) struct Renewal<S: Source>(Arc<Shared<S>>);

struct Shared<S> {
    source: S,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many runs there were.
    runs: u64,
    issued: Option<Issued>,
    running: Option<Running>,
}

/// A run under way.
struct Running {
    outcome: watch::Receiver<Option<Result<Login, AuthError>>>,
    task: AbortHandle,
}

/// What a run gave.
struct Issued {
    login: Login,
    /// Since when its certificate has been shown.
    since: Instant,
    /// When to renew it; without a time, once the server refuses it.
    until: Option<Instant>,
    /// When, if it was what the run before had given already.
    unchanged: Option<Instant>,
}

/// A request takes time, and clocks differ: credentials are renewed so long before they expire.
pub(super) const LEEWAY: Duration = Duration::from_secs(10);
/// A source that gave again what the server had refused is not asked again for so long.
const UNCHANGED_PAUSE: Duration = Duration::from_secs(10);

impl<S: Source> Renewal<S> {
    /// `first` is what there is without a run.
    pub(crate) fn new(source: S, first: Option<Credential>) -> Self {
        let mut state = State::default();
        if let Some(first) = first {
            state.runs = 1;
            state.issue(&source, 1, first);
        }
        Self(Arc::new(Shared { source, state: Mutex::new(state) }))
    }

    #[cfg(feature = "oidc")]
    pub(crate) fn source(&self) -> &S {
        &self.0.source
    }

    /// The present credentials; those of a run if there are none that last.
    pub(crate) async fn login(&self) -> Result<Login, AuthError> {
        self.issued(|issued| issued.until.is_none_or(|until| Instant::now() < until)).await
    }

    /// Those of a later run than `used`, which the server refused.
    pub(crate) async fn renew(&self, used: &Login) -> Result<Login, AuthError> {
        let is_pause = |issued: &Issued| issued.unchanged.is_some_and(|at| at.elapsed() < UNCHANGED_PAUSE);
        self.issued(|issued| issued.login.run > used.run || is_pause(issued)).await
    }

    async fn issued(&self, is_good: impl FnOnce(&Issued) -> bool) -> Result<Login, AuthError> {
        let mut outcome = {
            let mut state = self.0.lock();
            if let Some(issued) = state.issued.as_ref().filter(|issued| is_good(issued)) {
                return Ok(issued.login.clone());
            }
            match &state.running {
                // One whose runtime has gone will never tell.
                Some(running) if running.outcome.has_changed().is_ok() => running.outcome.clone(),
                _ => self.start(&mut state),
            }
        };
        let told = outcome.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        told.unwrap_or_else(|| Err(self.0.source.fault("its run was interrupted".into())))
    }

    fn start(&self, state: &mut State) -> watch::Receiver<Option<Result<Login, AuthError>>> {
        let (teller, outcome) = watch::channel(None);
        state.runs += 1;
        let (run, shared) = (state.runs, self.0.clone());
        let task = tokio::spawn(async move {
            let made = shared.source.make().await;
            let login = shared.keep(run, made);
            teller.send_replace(Some(login));
        });
        state.running = Some(Running { outcome: outcome.clone(), task: task.abort_handle() });
        outcome
    }
}

impl<S: Source> Drop for Renewal<S> {
    fn drop(&mut self) {
        if let Some(running) = &self.0.lock().running {
            running.task.abort();
        }
    }
}

impl<S: Source> Shared<S> {
    /// Notes what a run gave.
    fn keep(&self, run: u64, made: Result<Credential, AuthError>) -> Result<Login, AuthError> {
        let (login, replaced) = {
            let mut state = self.lock();
            state.running = None;
            state.issue(&self.source, run, made?)
        };
        // Metrics are somebody else's code, so this comes after the lock.
        if let Some(age) = replaced {
            self.source.certificate_replaced(age);
        }
        Ok(login)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What the credential is from now on; and for how long a certificate was shown, if it takes the place of one.
    fn issue(&mut self, source: &impl Source, run: u64, credential: Credential) -> (Login, Option<Duration>) {
        let Credential { header, pair, expires } = credential;
        let login = Login { header, pair, run };
        let is_unchanged = self.issued.as_ref().is_some_and(|before| before.login.is_same(&login));
        let until = expires.and_then(|expires| {
            let left = expires.duration_since(SystemTime::now()).ok().filter(|left| *left > LEEWAY);
            if left.is_none() {
                let fault = source.fault("what it gave expires at once".into());
                tracing::warn!("{fault}; it serves until the server refuses it");
            }
            Instant::now().checked_add(left? - LEEWAY)
        });
        let now = Instant::now();
        let before = self.issued.as_ref().filter(|before| before.login.pair.is_some());
        let (since, replaced) = match before {
            Some(before) if before.login.pair == login.pair => (before.since, None),
            before => (now, before.map(|before| now.duration_since(before.since))),
        };
        self.issued = Some(Issued { login: login.clone(), since, until, unchanged: is_unchanged.then_some(now) });
        (login, replaced)
    }
}

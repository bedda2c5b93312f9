//! Credentials that end, and are made anew by a task of the client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::Login;
use crate::error::AuthError;
use crate::transport::ClientPair;

/// Where credentials come from.
pub(crate) trait Source: Send + Sync + 'static {
    /// Makes new ones.
    fn make(&self) -> impl Future<Output = Result<Credential, AuthError>> + Send;

    /// How long that takes at most.
    fn patience(&self) -> Duration;

    /// A failure of it, in an error's words.
    fn fault(&self, why: String) -> AuthError;

    /// Another certificate has taken the place of one that was shown for so long.
    fn certificate_replaced(&self, _age: Duration) {}
}

/// What a source gave.
pub(crate) struct Credential {
    pub(crate) header: Option<HeaderValue>,
    pub(crate) pair: Option<Arc<ClientPair>>,
    /// None: when the server refuses it.
    pub(crate) expires: Option<SystemTime>,
}

/// Makes new credentials when there are none yet, shortly before they expire, and when the server refuses them; never twice at a time,
/// and all who wait get what one run gives. A run is a task of the runtime whose request first needed it: a request that is given up does
/// not end it, dropping the client and the deadline do. Where its runtime has ended, or stands still, who waits begins another one.
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
    /// How the last run has failed, and when.
    failed: Option<(Instant, AuthError)>,
}

/// A run under way.
#[derive(Clone)]
struct Running {
    run: u64,
    began: Instant,
    outcome: watch::Receiver<Option<Result<Login, AuthError>>>,
    task: AbortHandle,
}

/// Why there is a run.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    Expired,
    Refused,
}

/// What a run gave.
struct Issued {
    login: Login,
    /// Since when its certificate has been shown.
    since: Instant,
    /// When to renew it; without a time, once the server refuses it.
    until: Option<Instant>,
    /// When, if it was made because the server refused the one before, or is the same again.
    replaced: Option<Instant>,
}

/// A request takes time, and clocks differ: credentials are renewed so long before they expire.
pub(super) const LEEWAY: Duration = Duration::from_secs(10);
/// A source whose answer to a refusal is refused as well, or is the same again, is not asked again for so long.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// So long does a failure stand: nobody begins another run.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// So much longer than a run may take is it waited for: with its runtime, its own deadline may stand still.
const GRACE: Duration = Duration::from_secs(1);

impl<S: Source> Renewal<S> {
    /// `first` is what there is without a run.
    pub(crate) fn new(source: S, first: Option<Credential>) -> Self {
        let mut state = State::default();
        if let Some(first) = first {
            state.runs = 1;
            state.issue(1, Reason::Expired, first);
        }
        Self(Arc::new(Shared { source, state: Mutex::new(state) }))
    }

    #[cfg(feature = "oidc")]
    pub(crate) fn source(&self) -> &S {
        &self.0.source
    }

    /// The present credentials; those of a run if there are none that last.
    pub(crate) async fn login(&self) -> Result<Login, AuthError> {
        self.issued(Reason::Expired, |issued| issued.until.is_none_or(|until| Instant::now() < until)).await
    }

    /// Those of a later run than `used`, which the server refused.
    pub(crate) async fn renew(&self, used: &Login) -> Result<Login, AuthError> {
        let is_pause = |issued: &Issued| issued.replaced.is_some_and(|at| at.elapsed() < REFUSED_PAUSE);
        self.issued(Reason::Refused, |issued| issued.login.run > used.run || is_pause(issued)).await
    }

    async fn issued(&self, reason: Reason, is_good: impl Fn(&Issued) -> bool) -> Result<Login, AuthError> {
        loop {
            let (mut running, is_own) = {
                let mut state = self.0.lock();
                if let Some(issued) = state.issued.as_ref().filter(|issued| is_good(issued)) {
                    return Ok(issued.login.clone());
                }
                match (&state.running, &state.failed) {
                    // One whose runtime has gone will never tell.
                    (Some(running), _) if running.outcome.has_changed().is_ok() => (running.clone(), false),
                    (_, Some((at, error))) if at.elapsed() < FAILED_PAUSE => return Err(error.clone()),
                    _ => (self.start(&mut state, reason)?, true),
                }
            };
            let told = running.outcome.wait_for(Option::is_some);
            let patience = self.0.source.patience().saturating_add(GRACE);
            let told = match Handle::try_current() {
                Ok(_) => timeout_at(running.began + patience, told).await,
                // Outside of a runtime there are no timers.
                Err(_) => Ok(told.await),
            };
            match told.map(|told| told.ok().and_then(|told| told.clone())) {
                Ok(Some(outcome)) => return outcome,
                Ok(None) if is_own => return Err(self.0.source.fault("its run was interrupted".into())),
                // Its runtime has ended, or stands still.
                Ok(None) => {}
                Err(_) => self.0.give_up(running.run),
            }
        }
    }

    fn start(&self, state: &mut State, reason: Reason) -> Result<Running, AuthError> {
        let runtime = Handle::try_current();
        let runtime = runtime.map_err(|_| self.0.source.fault("there is no runtime to renew it on".into()))?;
        let (teller, outcome) = watch::channel(None);
        state.runs += 1;
        let (run, shared) = (state.runs, self.0.clone());
        let task = runtime.spawn(async move {
            let made = shared.source.make().await;
            let login = shared.keep(run, reason, made);
            teller.send_replace(Some(login));
        });
        let running = Running { run, began: Instant::now(), outcome, task: task.abort_handle() };
        Ok(state.running.insert(running).clone())
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
    fn keep(&self, run: u64, reason: Reason, made: Result<Credential, AuthError>) -> Result<Login, AuthError> {
        let (login, noted) = {
            let mut state = self.lock();
            // One that was given up may come to an end all the same.
            let is_awaited = state.running.take_if(|running| running.run == run).is_some();
            match made {
                Ok(made) => state.issue(run, reason, made),
                Err(error) => {
                    if is_awaited {
                        state.failed = Some((Instant::now(), error.clone()));
                    }
                    return Err(error);
                }
            }
        };
        // Logs and metrics are somebody else's code, so this comes after the lock.
        if noted.is_over {
            let fault = self.source.fault("what it gave expires at once".into());
            tracing::warn!("{fault}; it serves until the server refuses it");
        }
        if let Some(age) = noted.replaced {
            self.source.certificate_replaced(age);
        }
        Ok(login)
    }

    /// Gives up a run that should have come to an end so long ago: whatever drives it stands still.
    fn give_up(&self, run: u64) {
        let given_up = self.lock().running.take_if(|running| running.run == run);
        if let Some(running) = given_up {
            running.task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What there is to tell of new credentials.
struct Noted {
    /// Whether they expire at once.
    is_over: bool,
    /// For how long a certificate was shown, if they take the place of one.
    replaced: Option<Duration>,
}

impl State {
    /// What the credential is from now on.
    fn issue(&mut self, run: u64, reason: Reason, credential: Credential) -> (Login, Noted) {
        let Credential { header, pair, expires } = credential;
        let login = Login { header, pair, run };
        if self.issued.as_ref().is_some_and(|issued| issued.login.run > run) {
            return (login, Noted { is_over: false, replaced: None });
        }
        let is_unchanged = self.issued.as_ref().is_some_and(|before| before.login.is_same(&login));
        let left = expires.map(|expires| expires.duration_since(SystemTime::now()).unwrap_or_default());
        let is_over = left.is_some_and(|left| left <= LEEWAY);
        let now = Instant::now();
        let until = left.filter(|_| !is_over).and_then(|left| now.checked_add(left - LEEWAY));
        let before = self.issued.as_ref().filter(|before| before.login.pair.is_some());
        let (since, replaced) = match before {
            Some(before) if before.login.pair == login.pair => (before.since, None),
            before => (now, before.map(|before| now.duration_since(before.since))),
        };
        let is_replacement = is_unchanged || reason == Reason::Refused;
        self.issued = Some(Issued { login: login.clone(), since, until, replaced: is_replacement.then_some(now) });
        self.failed = None;
        (login, Noted { is_over, replaced })
    }
}

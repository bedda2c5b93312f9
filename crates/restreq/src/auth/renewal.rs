//! Renews credentials before they expire.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use pintle_meta::__private::Mutex;
use pintle_transport::ClientPair;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::Login;
use crate::error::AuthError;

pub(crate) type CredentialFuture<'a> = Pin<Box<dyn Future<Output = Result<Credential, AuthError>> + Send + 'a>>;

pub(crate) trait Source: Send + Sync + 'static {
    fn make(&self) -> CredentialFuture<'_>;

    /// Returns `false` if the source cannot obtain other credentials after the server has rejected the current ones.
    fn may_renew(&self) -> bool {
        true
    }

    /// The maximum duration of a call of [`make`](Self::make).
    fn max_wait(&self) -> Duration;

    /// Returns `true` if a renewal must continue after the client is dropped, because aborting the renewal would lose
    /// the credentials.
    fn outlives_client(&self) -> bool {
        false
    }

    fn fault(&self, why: String) -> AuthError;

    /// Reports that a renewal replaced a client certificate that was in use for `_age`.
    fn certificate_replaced(&self, _age: Duration) {}
}

pub(crate) struct Credential {
    pub(crate) header: Option<HeaderValue>,
    pub(crate) pair: Option<Arc<ClientPair>>,
    /// When the credentials expire, or `None` if they are used until the server rejects them.
    pub(crate) expires: Option<SystemTime>,
}

/// A cache for credentials. The cache renews credentials at their first use, shortly before they expire, and after the
/// server rejects them.
///
/// Each renewal is one call of [`Source::make`]. At most one renewal is in progress at a time, and all waiting requests
/// share its result. A renewal runs as a task on the runtime of the request that started it, and continues if this
/// request is cancelled.
///
/// Dropping the client aborts the renewal, unless the source [outlives the client](Source::outlives_client). If the
/// runtime of the renewal has shut down or is blocked, a waiting request starts another renewal.
pub(crate) struct Renewal(Arc<Shared>);

struct Shared {
    source: Arc<dyn Source>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    runs: u64,
    issued: Option<Issued>,
    running: Option<Running>,
    /// The end time and the error of the last renewal, or `None` if no renewal has ended or the last one succeeded.
    failed: Option<(Instant, AuthError)>,
}

#[derive(Clone)]
struct Running {
    run: u64,
    began: Instant,
    outcome: watch::Receiver<Option<Result<Login, AuthError>>>,
    task: AbortHandle,
}

#[derive(Clone, Copy, PartialEq)]
enum Reason {
    Expired,
    Refused,
}

struct Issued {
    login: Login,
    /// The time when a renewal first returned this certificate.
    since: Instant,
    /// The time when the credentials must be renewed, or `None` if they are only renewed after the server rejects them.
    until: Option<Instant>,
    /// When the credentials were issued, if the server had rejected the previous credentials or if the renewal returned
    /// them again. In all other cases, `replaced` is `None`.
    replaced: Option<Instant>,
}

/// Credentials are renewed this long before they expire. The margin allows for slow requests and for differences
/// between clocks.
pub(crate) const LEEWAY: Duration = Duration::from_secs(10);
/// The minimum pause before the next renewal, if the last renewal returned the same credentials again or the server
/// rejected the new ones.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// How long requests return the error of a failed renewal without starting another renewal.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// The additional time that a request waits after the timeout of the renewal. A request needs a separate timeout,
/// because the timer of a renewal does not fire if its runtime is blocked.
const GRACE: Duration = Duration::from_secs(1);

impl Renewal {
    /// Creates a cache that returns `first` until a renewal has succeeded.
    pub(crate) fn new(source: Arc<dyn Source>, first: Option<Credential>) -> Self {
        let mut state = State::default();
        if let Some(first) = first {
            state.runs = 1;
            state.issue(1, Reason::Expired, first);
        }
        Self(Arc::new(Shared { source, state: Mutex::new(state) }))
    }

    /// Returns the current credentials. If there are no credentials or they are about to expire, waits for a renewal.
    pub(crate) async fn login(&self) -> Result<Login, AuthError> {
        self.issued(Reason::Expired, |issued| issued.until.is_none_or(|until| Instant::now() < until)).await
    }

    /// Returns credentials that are newer than `used`, which the server has rejected. If the last renewal returned
    /// rejected or unchanged credentials less than [`REFUSED_PAUSE`] ago, returns the current credentials. Returns
    /// `None` if the source cannot obtain other credentials.
    pub(crate) async fn renew(&self, used: &Login) -> Result<Option<Login>, AuthError> {
        if !self.0.source.may_renew() {
            return Ok(None);
        }
        let is_pause = |issued: &Issued| issued.replaced.is_some_and(|at| at.elapsed() < REFUSED_PAUSE);
        self.issued(Reason::Refused, |issued| issued.login.run > used.run || is_pause(issued)).await.map(Some)
    }

    async fn issued(&self, reason: Reason, is_good: impl Fn(&Issued) -> bool) -> Result<Login, AuthError> {
        loop {
            let (mut running, is_own) = {
                let mut state = self.0.state.lock();
                if let Some(issued) = state.issued.as_ref().filter(|issued| is_good(issued)) {
                    return Ok(issued.login.clone());
                }
                match (&state.running, &state.failed) {
                    // If the channel is closed, the runtime of the renewal has shut down.
                    (Some(running), _) if running.outcome.has_changed().is_ok() => (running.clone(), false),
                    (_, Some((at, error))) if at.elapsed() < FAILED_PAUSE => return Err(error.clone()),
                    _ => (self.start(&mut state, reason)?, true),
                }
            };
            let result = running.outcome.wait_for(Option::is_some);
            let max_wait = self.0.source.max_wait().saturating_add(GRACE);
            let result = match Handle::try_current() {
                Ok(_) => timeout_at(running.began + max_wait, result).await,
                // There are no timers outside of a tokio runtime, so wait without a timeout.
                Err(_) => Ok(result.await),
            };
            match result.map(|result| result.ok().and_then(|result| result.clone())) {
                Ok(Some(outcome)) => return outcome,
                Ok(None) if is_own => return Err(self.0.source.fault("its run was interrupted".into())),
                // Try again on this runtime, because the renewal runs on another runtime that has shut down or is
                // blocked.
                Ok(None) => {}
                Err(_) => self.0.give_up(running.run),
            }
        }
    }

    fn start(&self, state: &mut State, reason: Reason) -> Result<Running, AuthError> {
        let runtime = Handle::try_current();
        let runtime = runtime.map_err(|_| self.0.source.fault("there is no runtime to renew it on".into()))?;
        let (sender, outcome) = watch::channel(None);
        state.runs += 1;
        let (run, shared) = (state.runs, self.0.clone());
        let task = runtime.spawn(async move {
            let made = shared.source.make().await;
            let login = shared.keep(run, reason, made);
            sender.send_replace(Some(login));
        });
        let running = Running { run, began: Instant::now(), outcome, task: task.abort_handle() };
        Ok(state.running.insert(running).clone())
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        if let Some(running) = self.0.state.lock().running.take_if(|_| !self.0.source.outlives_client()) {
            running.task.abort();
        }
    }
}

impl Shared {
    fn keep(&self, run: u64, reason: Reason, made: Result<Credential, AuthError>) -> Result<Login, AuthError> {
        let (login, noted) = {
            let mut state = self.state.lock();
            // Another request may already have abandoned this renewal.
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
        // Log subscribers and metrics providers are user code, so do not call them while holding the lock.
        if noted.is_over {
            let fault = self.source.fault("its credentials expire immediately".into());
            tracing::warn!("{fault}; it is used until the server rejects it");
        }
        if let Some(age) = noted.replaced {
            self.source.certificate_replaced(age);
        }
        Ok(login)
    }

    /// Abandons a renewal that has exceeded its timeout because its runtime is blocked.
    fn give_up(&self, run: u64) {
        let given_up = self.state.lock().running.take_if(|running| running.run == run);
        if let Some(running) = given_up {
            running.task.abort();
        }
    }
}

struct RenewalReport {
    /// Whether the new credentials have already expired or are about to expire.
    is_over: bool,
    /// How long the replaced certificate was in use, or `None` if no certificate was replaced.
    replaced: Option<Duration>,
}

impl State {
    fn issue(&mut self, run: u64, reason: Reason, credential: Credential) -> (Login, RenewalReport) {
        let Credential { header, pair, expires } = credential;
        let login = Login { header, pair, run };
        if self.issued.as_ref().is_some_and(|issued| issued.login.run > run) {
            return (login, RenewalReport { is_over: false, replaced: None });
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
        (login, RenewalReport { is_over, replaced })
    }
}

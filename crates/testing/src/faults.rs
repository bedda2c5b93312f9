//! Fault injection.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use pintle_meta::{ApiError, Reason, Status};

use crate::request::{RecordedRequest, Verb};

/// The outcome that a fault gives to a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The request succeeds. Like every queued outcome, a queued `Pass` applies to one request.
    Pass,
    /// The server does not execute the request, and the client receives this error.
    Fails(ApiError),
    /// The server does not execute the request, and the client receives no response.
    Lost,
    /// The server executes the request, but the client receives this error. To simulate a broken connection, use
    /// [`ApiError::transport`].
    AnswerFails(ApiError),
    /// The server executes the request, but the client receives no response.
    AnswerLost,
    /// The server executes the request immediately, but delays the response by this time on tokio's clock.
    AnswerSlow(Duration),
    /// The page or the watch breaks after `after` items. Requests other than lists and watches succeed.
    Breaks {
        /// The number of items before the page or the watch breaks.
        after: usize,
        /// How the page or the watch breaks.
        how: Break,
    },
    /// A streaming list omits the bookmark that marks the end of the initial events. Other requests succeed.
    NoBookmark,
}

/// How a page or a watch breaks.
#[derive(Clone, Debug)]
pub enum Break {
    /// The stream ends, as if the server had closed it.
    End,
    /// The stream stays open without returning further items, as if the server were unreachable.
    Silent,
    /// The stream returns an error and ends. For a watch, a [`Status`] error becomes an ERROR event, and any other
    /// error becomes a stream error.
    Fails(ApiError),
}

impl Outcome {
    /// Creates an outcome that rejects the request with `code` and `reason`.
    pub fn refused(code: u16, reason: Reason) -> Self {
        Self::Fails(Status::failure(code, reason, "refused by the test").into())
    }
}

impl Break {
    /// Returns a break with the error 410, which means that the revision of the watch is too old.
    pub fn expired() -> Self {
        Self::Fails(Status::failure(410, Reason::Expired, "too old resource version").into())
    }

    /// Returns a break with the error of a broken connection.
    pub fn cut() -> Self {
        Self::Fails(ApiError::transport("the connection was cut"))
    }
}

/// The faults of a [`Collection`](crate::Collection) or of one of its [`Client`](crate::Client)s. Clones share the same
/// script.
///
/// The script of a collection applies to the requests of all clients. If several faults apply to a request, the first
/// of these faults determines the outcome:
///
/// 1. the cut connection of the client (see [`cut_off`](Self::cut_off))
/// 2. the first fault that is queued for the verb in the client's script
/// 3. the client's rule
/// 4. the collection's cut connection, queued fault and rule, in this order
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiResource, DynamicObject, ListOptions, ListWatch, Reason, Scope};
/// use pintle_testing::{Collection, CollectionConfig, Outcome, Verb};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
/// let maps = Collection::<DynamicObject>::dynamic(resource, CollectionConfig::default());
/// maps.faults().next_of(Verb::List, [Outcome::refused(429, Reason::TooManyRequests)]);
/// assert!(maps.list(&ListOptions::default()).await.is_err());
/// assert!(maps.list(&ListOptions::default()).await.is_ok());
///
/// maps.faults().when(|request| (request.verb() == Verb::List).then(|| Outcome::refused(403, Reason::Forbidden)));
/// assert!(maps.list(&ListOptions::default()).await.is_err());
/// maps.faults().heal();
/// assert!(maps.list(&ListOptions::default()).await.is_ok());
/// # }
/// ```
#[derive(Clone, Default)]
pub struct FaultScript(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    /// The queued outcomes for the next requests. An outcome without a verb applies to requests with any verb.
    next: VecDeque<(Option<Verb>, Outcome)>,
    rule: Option<Rule>,
    cut_off: bool,
    /// The wakers of watches that are silent because of a cut connection. [`FaultScript::heal`] wakes these watches.
    stalled: Vec<Waker>,
}

type Rule = Arc<dyn Fn(&RecordedRequest) -> Option<Outcome> + Send + Sync>;

impl FaultScript {
    /// Queues outcomes for the next requests with any verb. Each request uses up one outcome.
    pub fn next(&self, faults: impl IntoIterator<Item = Outcome>) {
        let faults: Vec<_> = faults.into_iter().map(|fault| (None, fault)).collect();
        self.0.lock().next.extend(faults);
    }

    /// Queues outcomes for the next requests with `verb`. Each request with this verb uses up one outcome.
    pub fn next_of(&self, verb: Verb, faults: impl IntoIterator<Item = Outcome>) {
        let faults: Vec<_> = faults.into_iter().map(|fault| (Some(verb), fault)).collect();
        self.0.lock().next.extend(faults);
    }

    /// Sets the rule that determines the outcomes of requests without a queued fault, and replaces an earlier rule.
    ///
    /// The request is logged before the rule is called. The task that sends the request calls the rule without holding
    /// a lock, so the rule may use the collection. If the rule panics, the panic propagates to the task that sends the
    /// request. A rule that owns its collection keeps the collection alive until a call to `heal`.
    pub fn when(&self, rule: impl Fn(&RecordedRequest) -> Option<Outcome> + Send + Sync + 'static) {
        let rule: Option<Rule> = Some(Arc::new(rule));
        let old = std::mem::replace(&mut self.0.lock().rule, rule);
        // Release the lock before dropping the old rule, because its `Drop` may run user code.
        drop(old);
    }

    /// Cuts the connection of the client. In the script of a collection, `cut_off` cuts the connections of all clients.
    /// While a connection is cut, no request is executed or answered, and all open watches are silent.
    pub fn cut_off(&self) {
        self.0.lock().cut_off = true;
    }

    /// Restores the connection, and removes the rule and all queued outcomes. Open watches then deliver the events that
    /// occurred while the connection was cut. Broken watches remain broken.
    pub fn heal(&self) {
        let script = std::mem::take(&mut *self.0.lock());
        script.stalled.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn meet(&self, request: &RecordedRequest) -> Option<Outcome> {
        let rule = {
            let mut script = self.0.lock();
            if script.cut_off {
                return Some(Outcome::Lost);
            }
            let verb = request.verb();
            let at = script.next.iter().position(|(of, _)| of.is_none_or(|of| of == verb));
            if let Some((_, fault)) = at.and_then(|at| script.next.remove(at)) {
                return Some(fault);
            }
            script.rule.clone()
        };
        rule?(request)
    }

    /// If watches are silent because of a cut connection, stores `waker` for `heal` and returns `true`.
    pub(crate) fn stall(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut script = self.0.lock();
        let stalls = script.cut_off;
        if stalls && !script.stalled.iter().any(|known| known.will_wake(&waker)) {
            script.stalled.push(waker);
        }
        stalls
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for FaultScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (next, rule, cut_off) = {
            let script = self.0.lock();
            (script.next.clone(), script.rule.is_some(), script.cut_off)
        };
        f.debug_struct("FaultScript").field("next", &next).field("rule", &rule).field("cut_off", &cut_off).finish()
    }
}

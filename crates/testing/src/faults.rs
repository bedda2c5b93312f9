//! What goes wrong, scripted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use pintle_meta::{ApiError, Reason, Status};

use crate::{RecordedRequest, Verb};

/// What becomes of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is answered as it should be. It takes its turn among others.
    Pass,
    /// It fails with this error, and nothing is done.
    Fails(ApiError),
    /// It never arrives, and no answer comes.
    Lost,
    /// It is done, and the answer is this error: say, [`ApiError::transport`] for a connection that broke meanwhile.
    AnswerFails(ApiError),
    /// It is done, and no answer comes.
    AnswerLost,
    /// It is done at once, and the answer takes this long, on tokio's clock.
    AnswerSlow(Duration),
    /// A page or a watch that gives so many of its items, and then breaks. Other requests pass.
    Breaks {
        /// How many items come through.
        after: usize,
        /// What happens then.
        how: Break,
    },
    /// A streaming list that gives everything but the bookmark at its end. Other requests pass.
    NoBookmark,
}

/// How a page or a watch breaks.
#[derive(Clone, Debug)]
pub enum Break {
    /// It ends, as when a server closes it cleanly.
    End,
    /// It stays open and says nothing more, as a connection does whose other end is gone.
    Silent,
    /// It fails and ends: by an event of type ERROR if the server says so, which is a [`Status`], else by an error of the stream.
    Fails(ApiError),
}

impl Outcome {
    /// The server refuses the request, with this code and reason.
    pub fn refused(code: u16, reason: Reason) -> Self {
        Self::Fails(Status::failure(code, reason, "refused by the test").into())
    }
}

impl Break {
    /// The revision that a watch has come to is too old: 410.
    pub fn expired() -> Self {
        Self::Fails(Status::failure(410, Reason::Expired, "too old resource version").into())
    }

    /// The connection is cut.
    pub fn cut() -> Self {
        Self::Fails(ApiError::transport("the connection was cut"))
    }
}

/// The script of faults of a [`Collection`](crate::Collection), or of one [`Client`](crate::Client) of it. Clones are the same script.
///
/// A request meets the first of these that applies: the cut of a client's connection; the first fault of the client's script that
/// is for its verb; the client's rule; and then the same of the collection, whose script is for the requests of all.
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
    /// Each for any verb, or for one.
    next: VecDeque<(Option<Verb>, Outcome)>,
    rule: Option<Rule>,
    cut_off: bool,
    /// Those who read watches of the one that is cut off.
    stalled: Vec<Waker>,
}

type Rule = Arc<dyn Fn(&RecordedRequest) -> Option<Outcome> + Send + Sync>;

impl FaultScript {
    /// The faults that the next requests meet, one each, whatever they ask for.
    pub fn next(&self, faults: impl IntoIterator<Item = Outcome>) {
        let faults: Vec<_> = faults.into_iter().map(|fault| (None, fault)).collect();
        self.lock().next.extend(faults);
    }

    /// The faults that the next requests of one kind meet, one each.
    pub fn next_of(&self, verb: Verb, faults: impl IntoIterator<Item = Outcome>) {
        let faults: Vec<_> = faults.into_iter().map(|fault| (Some(verb), fault)).collect();
        self.lock().next.extend(faults);
    }

    /// The rule for all requests that no fault is lined up for. It takes the place of the rule before.
    ///
    /// The request is in the log by then. The rule is called without a lock held, on the task that sends the request; so it may
    /// look at the collection, and a panic of it is one of that task. A collection that its own rule holds lives until it is healed.
    pub fn when(&self, rule: impl Fn(&RecordedRequest) -> Option<Outcome> + Send + Sync + 'static) {
        let rule: Option<Rule> = Some(Arc::new(rule));
        let old = std::mem::replace(&mut self.lock().rule, rule);
        // It is the user's, and may do anything when dropped.
        drop(old);
    }

    /// From now on all requests are lost, and open watches say nothing.
    pub fn cut_off(&self) {
        self.lock().cut_off = true;
    }

    /// Nothing goes wrong any more: no cut, no rule, no faults lined up. Open watches go on where they were; what broke by
    /// itself stays broken.
    pub fn heal(&self) {
        let script = std::mem::take(&mut *self.lock());
        script.stalled.into_iter().for_each(Waker::wake);
    }

    /// The fault that `request` meets, if there is one.
    pub(crate) fn meet(&self, request: &RecordedRequest) -> Option<Outcome> {
        let rule = {
            let mut script = self.lock();
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

    /// Whether watches have to be silent now. If so, `waker` is woken when they need not be any longer.
    pub(crate) fn stall(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut script = self.lock();
        let stalls = script.cut_off;
        if stalls && !script.stalled.iter().any(|known| known.will_wake(&waker)) {
            script.stalled.push(waker);
        }
        stalls
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FaultScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (next, rule, cut_off) = {
            let script = self.lock();
            (script.next.clone(), script.rule.is_some(), script.cut_off)
        };
        f.debug_struct("FaultScript").field("next", &next).field("rule", &rule).field("cut_off", &cut_off).finish()
    }
}

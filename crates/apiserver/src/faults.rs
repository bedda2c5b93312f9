//! Scripted faults. A rule defines which requests fail, how they fail and how often.

mod rule;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pintle_apimachinery::verb::RequestVerb;
pub use rule::{Answer, Fault, Lag, Rule};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::rule::Armed;

/// The scripted faults of a server. The server applies the rules in the order in which they were added.
#[derive(Debug)]
pub struct Faults {
    inner: Mutex<ArmedRules>,
    /// The clock of this runtime determines when fault rules become active and when they expire. If no runtime is set, a rule uses the
    /// clock of the thread that calls `add`.
    runtime: OnceLock<Handle>,
}

#[derive(Debug)]
struct ArmedRules {
    rules: Vec<Armed>,
    seed: u64,
    /// The number of times that each fault rule has fired. The number in a rule's [`RuleId`] is the index of the rule in this list.
    hits: Vec<u64>,
}

/// The ID of a rule that was added to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(usize);

/// Fault rules compare their conditions with these attributes of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// The verb. If the request has no resource, the verb is `None`.
    pub(crate) verb: Option<RequestVerb>,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a str,
    pub(crate) user_agent: &'a str,
    /// The `resourceVersion` of a read. The version is empty if a read requests the newest state.
    pub(crate) version: &'a str,
}

/// The effects that the fault rules have on a request. The rules are applied before the server processes the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
    /// The server first processes the request, and then sends this answer instead of the real response.
    pub(crate) lose_answer: Option<Answer>,
    /// The server reads from this view of the store.
    pub(crate) view: Option<View>,
}

/// A view of the store. The view can show a state that is older than the newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The view always shows the state of the store at this revision.
    At(u64),
    Behind(Lag),
}

/// Describes how a [`Fault::Lag`] rule affects one watch.
#[derive(Clone, Debug)]
pub(crate) struct Lagging {
    pub(crate) lag: Lag,
    until: Option<Instant>,
    lifted: CancellationToken,
}

impl Lagging {
    /// Returns whether the lag of the watch has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.lifted.is_cancelled() || self.until.is_some_and(|until| until <= Instant::now())
    }

    /// Waits until the lag of the watch ends.
    pub(crate) async fn end(&self) {
        match self.until {
            Some(until) => {
                let _ = tokio::time::timeout_at(until, self.lifted.cancelled()).await;
            }
            None => self.lifted.cancelled().await,
        }
    }
}

/// Describes how a rule affects one watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchFault {
    /// The watch starts with the error that its revision has expired.
    Expired,
    /// The connection is closed after the watch has sent this many frames.
    CutAfter(u32),
    /// After this many frames, the connection is closed in the middle of the next frame.
    CutMidFrame(u32),
    /// After this many frames, the watch does not send anything.
    SilentAfter(u32),
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { inner: Mutex::new(ArmedRules { rules: Vec::new(), seed, hits: Vec::new() }), runtime: OnceLock::new() }
    }

    /// From this call on, all rules measure time with the clock of this runtime. Later calls of this method have no effect.
    pub(crate) fn use_clock_of(&self, runtime: Handle) {
        self.runtime.get_or_init(|| runtime);
    }

    /// Adds a rule. The server applies the rules in the order in which they were added.
    pub fn add(&self, rule: Rule) -> RuleId {
        let _runtime = self.runtime.get().map(Handle::enter);
        let mut inner = self.lock();
        let id = RuleId(inner.hits.len());
        inner.hits.push(0);
        // Each rule has a separate random source, so one rule does not influence the random choices of another rule.
        let random = fastrand::Rng::with_seed(inner.seed.wrapping_add(id.0 as u64));
        inner.rules.push(Armed::new(id, rule, random));
        id
    }

    /// Removes a rule. The watches that lag because of this rule send their delayed events immediately. A delayed event is lost if it is no
    /// longer in the history.
    pub fn remove(&self, rule: RuleId) {
        self.lock().rules.retain(|armed| armed.id != rule);
    }

    /// Removes all rules. All lagging watches send their delayed events immediately. A delayed event is lost if it is no longer in the
    /// history.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// Returns how many times the rules have fired so far, in total.
    pub fn hits(&self) -> u64 {
        self.lock().hits.iter().sum()
    }

    /// Returns the number of times that this rule has fired so far. The number remains available after the rule was removed.
    pub fn hits_of(&self, rule: RuleId) -> u64 {
        self.lock().hits.get(rule.0).copied().unwrap_or(0)
    }

    /// Returns whether a rule can match create requests by the name of the object. If the result is false, the caller need not read the
    /// object name from the body.
    pub(crate) fn needs_create_names(&self) -> bool {
        let is_relevant = |rule: &Rule| rule.name.is_some() && rule.verb.is_none_or(|verb| verb == RequestVerb::Create);
        self.lock().rules.iter().any(|armed| is_relevant(&armed.rule))
    }

    /// Applies the rules to a request before the server processes it.
    pub(crate) fn before(&self, request: &Request<'_>) -> Before {
        let mut before = Before::default();
        let mut inner = self.lock();
        let ArmedRules { rules, hits, .. } = &mut *inner;
        for armed in rules.iter_mut() {
            let matches = !armed.rule.fault.is_about_watch(request) && armed.fires(request);
            if !matches {
                continue;
            }
            hits[armed.id.0] += 1;
            match &armed.rule.fault {
                Fault::Delay(delay) => before.delay = before.delay.saturating_add(*delay),
                Fault::Answer(answer) => {
                    before.answer = Some(answer.clone());
                    break;
                }
                Fault::LoseAnswer(answer) => before.lose_answer = Some(answer.clone()),
                Fault::Stale(version) => before.view = Some(View::At(*version)),
                Fault::Lag(lag) => before.view = Some(View::Behind(*lag)),
                Fault::Expire | Fault::CutAfter(_) | Fault::CutMidFrame(_) | Fault::SilentAfter(_) => (),
            }
        }
        rules.retain(|armed| !armed.is_over());
        before
    }

    /// Applies the rules to a watch that starts. At most one rule with the fault [`Fault::Lag`] fires. Of the rules that cut or silence the
    /// watch, at most one fires.
    pub(crate) fn watch(&self, request: &Request<'_>) -> (Option<WatchFault>, Option<Lagging>) {
        let mut inner = self.lock();
        let ArmedRules { rules, hits, .. } = &mut *inner;
        let (mut ends, mut lags) = (None, None);
        for armed in rules.iter_mut().filter(|armed| armed.rule.fault.is_about_watch(request)) {
            let is_lag = matches!(armed.rule.fault, Fault::Lag(_));
            let is_taken = if is_lag { lags.is_some() } else { ends.is_some() };
            if is_taken || !armed.fires(request) {
                continue;
            }
            hits[armed.id.0] += 1;
            match armed.rule.fault {
                Fault::Lag(lag) => lags = Some(Lagging { lag, until: armed.until(), lifted: armed.lifted() }),
                Fault::CutAfter(frames) => ends = Some(WatchFault::CutAfter(frames)),
                Fault::CutMidFrame(frames) => ends = Some(WatchFault::CutMidFrame(frames)),
                Fault::SilentAfter(frames) => ends = Some(WatchFault::SilentAfter(frames)),
                _ => ends = Some(WatchFault::Expired),
            }
        }
        rules.retain(|armed| !armed.is_over());
        (ends, lags)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ArmedRules> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Scripted faults. A rule defines which requests fail, how they fail and how often.

mod rule;

use std::sync::OnceLock;
use std::time::Duration;

use pintle_apimachinery::verb::RequestVerb;
use pintle_meta::__private::Mutex;
pub use rule::{Answer, Fault, Lag, Rule};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::rule::ArmedRule;

/// The scripted faults of a server. The server applies the rules from the oldest to the newest.
#[derive(Debug)]
pub struct Faults {
    inner: Mutex<ArmedRules>,
    /// The runtime whose clock determines when fault rules become active and expire. If unset, each rule uses the clock
    /// of the thread that calls `add`.
    runtime: OnceLock<Handle>,
}

#[derive(Debug)]
struct ArmedRules {
    rules: Vec<ArmedRule>,
    seed: u64,
    hits: Vec<u64>,
}

/// The ID of a rule that was added to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(usize);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) verb: Option<RequestVerb>,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a str,
    pub(crate) user_agent: &'a str,
    /// The `resourceVersion` parameter of a read. The parameter is empty if the read requests the latest state.
    pub(crate) version: &'a str,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
    /// The answer that replaces the real response after the server has processed the request.
    pub(crate) lose_answer: Option<Answer>,
    pub(crate) view: Option<View>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    At(u64),
    Behind(Lag),
}

#[derive(Clone, Debug)]
pub(crate) struct Lagging {
    pub(crate) lag: Lag,
    until: Option<Instant>,
    lifted: CancellationToken,
}

impl Lagging {
    pub(crate) fn is_over(&self) -> bool {
        self.lifted.is_cancelled() || self.until.is_some_and(|until| until <= Instant::now())
    }

    pub(crate) async fn end(&self) {
        match self.until {
            Some(until) => {
                let _ = tokio::time::timeout_at(until, self.lifted.cancelled()).await;
            }
            None => self.lifted.cancelled().await,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchFault {
    /// The watch starts with an error, because its revision has expired.
    Expired,
    /// The server closes the connection after the watch has sent this many frames.
    CutAfter(u32),
    /// After sending this many frames, the server closes the connection in the middle of the next frame.
    CutMidFrame(u32),
    /// The watch stays open, but sends nothing after this many frames.
    SilentAfter(u32),
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { inner: Mutex::new(ArmedRules { rules: Vec::new(), seed, hits: Vec::new() }), runtime: OnceLock::new() }
    }

    /// Makes all rules measure time with the clock of `runtime`. Only the first call of `use_clock_of` has an effect.
    pub(crate) fn use_clock_of(&self, runtime: Handle) {
        self.runtime.get_or_init(|| runtime);
    }

    /// Adds a rule. The server applies older rules first.
    pub fn add(&self, rule: Rule) -> RuleId {
        let _runtime = self.runtime.get().map(Handle::enter);
        let mut inner = self.inner.lock();
        let id = RuleId(inner.hits.len());
        inner.hits.push(0);
        // Each rule has its own random number generator, so the rules are independent of each other.
        let random = fastrand::Rng::with_seed(inner.seed.wrapping_add(id.0 as u64));
        inner.rules.push(ArmedRule::new(id, rule, random));
        id
    }

    /// Removes a rule. Watches that the rule has delayed then send their delayed events, except for events that are no
    /// longer in the history.
    pub fn remove(&self, rule: RuleId) {
        self.inner.lock().rules.retain(|armed| armed.id != rule);
    }

    /// Removes all rules. Delayed watches then send their delayed events, except for events that are no longer in the
    /// history.
    pub fn clear(&self) {
        self.inner.lock().rules.clear();
    }

    /// Returns the total number of times that rules have fired so far.
    pub fn hits(&self) -> u64 {
        self.inner.lock().hits.iter().sum()
    }

    /// Returns how many times `rule` has fired so far, even if it was removed.
    pub fn hits_of(&self, rule: RuleId) -> u64 {
        self.inner.lock().hits.get(rule.0).copied().unwrap_or(0)
    }

    /// Returns `true` if a rule can match create requests by the name of the object. If no rule can match, the caller
    /// need not read the name from the request body.
    pub(crate) fn needs_create_names(&self) -> bool {
        let is_relevant = |rule: &Rule| rule.name.is_some() && rule.verb.is_none_or(|verb| verb == RequestVerb::Create);
        self.inner.lock().rules.iter().any(|armed| is_relevant(&armed.rule))
    }

    pub(crate) fn before(&self, request: &Request<'_>) -> Before {
        let mut before = Before::default();
        let mut inner = self.inner.lock();
        let ArmedRules { rules, hits, .. } = &mut *inner;
        for armed in rules.iter_mut() {
            let matches = !armed.rule.fault.affects_running_watch(request) && armed.try_fire(request);
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
        rules.retain(|armed| !armed.can_be_dropped());
        before
    }

    /// Applies the rules to a new watch. At most one [`Fault::Lag`] rule fires. Of the rules that expire, cut or
    /// silence a watch, at most one rule fires.
    pub(crate) fn watch(&self, request: &Request<'_>) -> (Option<WatchFault>, Option<Lagging>) {
        let mut inner = self.inner.lock();
        let ArmedRules { rules, hits, .. } = &mut *inner;
        let (mut ends, mut lags) = (None, None);
        for armed in rules.iter_mut().filter(|armed| armed.rule.fault.affects_running_watch(request)) {
            let is_lag = matches!(armed.rule.fault, Fault::Lag(_));
            let is_taken = if is_lag { lags.is_some() } else { ends.is_some() };
            if is_taken || !armed.try_fire(request) {
                continue;
            }
            hits[armed.id.0] += 1;
            match armed.rule.fault {
                Fault::Lag(lag) => lags = Some(Lagging { lag, until: armed.until(), lifted: armed.removed() }),
                Fault::CutAfter(frames) => ends = Some(WatchFault::CutAfter(frames)),
                Fault::CutMidFrame(frames) => ends = Some(WatchFault::CutMidFrame(frames)),
                Fault::SilentAfter(frames) => ends = Some(WatchFault::SilentAfter(frames)),
                _ => ends = Some(WatchFault::Expired),
            }
        }
        rules.retain(|armed| !armed.can_be_dropped());
        (ends, lags)
    }
}

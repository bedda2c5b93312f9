//! Faults, scripted by value: what goes wrong, for whom, and how often.

mod rule;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

pub use rule::{Answer, Fault, Lag, Rule};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::rule::Armed;
use crate::verb::RequestVerb;

/// The scripted faults of a server, in the order in which they were added.
#[derive(Debug)]
pub struct Faults {
    inner: Mutex<ArmedRules>,
    /// The runtime by whose clock windows of time go, if that is not that of whoever adds a rule.
    home: OnceLock<Handle>,
}

#[derive(Debug)]
struct ArmedRules {
    rules: Vec<Armed>,
    seed: u64,
    /// How often each rule has struck, by its number.
    hits: Vec<u64>,
}

/// A rule that was added to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(usize);

/// What a request looks like to a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// None where it is for no resource.
    pub(crate) verb: Option<RequestVerb>,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user: &'a str,
    pub(crate) user_agent: &'a str,
    /// The `resourceVersion` that a read asks for; empty where it wants the newest.
    pub(crate) version: &'a str,
}

/// What a rule does to a request before it is served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
    /// Serve it, then lose the answer.
    pub(crate) lose_answer: Option<Answer>,
    /// Read what this view shows.
    pub(crate) view: Option<View>,
}

/// What of a resource is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// What this version left.
    At(u64),
    Behind(Lag),
}

/// That a watch sees a view that lags.
#[derive(Clone, Debug)]
pub(crate) struct Lagging {
    pub(crate) lag: Lag,
    until: Option<Instant>,
    lifted: CancellationToken,
}

impl Lagging {
    /// Whether it lags no more.
    pub(crate) fn is_over(&self) -> bool {
        self.lifted.is_cancelled() || self.until.is_some_and(|until| until <= Instant::now())
    }

    /// Waits until it lags no more.
    pub(crate) async fn end(&self) {
        match self.until {
            Some(until) => {
                let _ = tokio::time::timeout_at(until, self.lifted.cancelled()).await;
            }
            None => self.lifted.cancelled().await,
        }
    }
}

/// What a rule does to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchFault {
    /// It begins too old.
    Expired,
    /// Its connection is cut after so many frames.
    CutAfter(u32),
    /// Its connection is cut in the middle of the frame after so many.
    CutMidFrame(u32),
    /// It says nothing more after so many frames.
    SilentAfter(u32),
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { inner: Mutex::new(ArmedRules { rules: Vec::new(), seed, hits: Vec::new() }), home: OnceLock::new() }
    }

    /// Has windows of time go by the clock of that runtime. The first that is given counts.
    pub(crate) fn go_by_clock_of(&self, home: Handle) {
        self.home.get_or_init(|| home);
    }

    /// Adds a rule. Rules are looked at in the order in which they were added.
    pub fn add(&self, rule: Rule) -> RuleId {
        let _at_home = self.home.get().map(Handle::enter);
        let mut inner = self.lock();
        let id = RuleId(inner.hits.len());
        inner.hits.push(0);
        // Each has a source of its own, so that none of them changes what strikes by another.
        let random = fastrand::Rng::with_seed(inner.seed.wrapping_add(id.0 as u64));
        inner.rules.push(Armed::new(id, rule, random));
        id
    }

    /// Removes one rule. One that is spent strikes no more in any case; watches that lag by this one catch up, as far as what they were yet to
    /// be told is kept.
    pub fn remove(&self, rule: RuleId) {
        self.lock().rules.retain(|armed| armed.id != rule);
    }

    /// Removes all rules. Watches that lag catch up.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// How often rules have struck so far, all together.
    pub fn hits(&self) -> u64 {
        self.lock().hits.iter().sum()
    }

    /// How often this rule has struck so far, whether it is there any more or not.
    pub fn hits_of(&self, rule: RuleId) -> u64 {
        self.lock().hits.get(rule.0).copied().unwrap_or(0)
    }

    /// Whether some rule is for objects of one name, and may strike a create.
    pub(crate) fn ask_for_names(&self) -> bool {
        let is_meant = |rule: &Rule| rule.name.is_some() && rule.verb.is_none_or(|verb| verb == RequestVerb::Create);
        self.lock().rules.iter().any(|armed| is_meant(&armed.rule))
    }

    /// What the rules do to a request before it is served.
    pub(crate) fn before(&self, request: &Request<'_>) -> Before {
        let mut before = Before::default();
        let mut inner = self.lock();
        let ArmedRules { rules, hits, .. } = &mut *inner;
        for armed in rules.iter_mut() {
            let matches = !armed.rule.fault.is_about_watch(request) && armed.strikes(request);
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

    /// What the rules do to a watch as it begins: of what ends it, only the first that strikes counts, and of what makes it lag.
    pub(crate) fn watch(&self, request: &Request<'_>) -> (Option<WatchFault>, Option<Lagging>) {
        let mut inner = self.lock();
        let ArmedRules { rules, hits, .. } = &mut *inner;
        let (mut ends, mut lags) = (None, None);
        for armed in rules.iter_mut().filter(|armed| armed.rule.fault.is_about_watch(request)) {
            let is_lag = matches!(armed.rule.fault, Fault::Lag(_));
            let is_taken = if is_lag { lags.is_some() } else { ends.is_some() };
            if is_taken || !armed.strikes(request) {
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

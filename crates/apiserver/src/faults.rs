//! Faults, scripted by value: what goes wrong, for whom, and how often.

mod rule;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use rule::{Answer, Fault, Rule};

use self::rule::Armed;

/// The scripted faults of a server, in the order in which they were added.
#[derive(Debug)]
pub struct Faults {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    rules: Vec<Armed>,
    random: fastrand::Rng,
    hits: u64,
}

/// What a request looks like to a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) user_agent: &'a str,
}

/// What a rule does to a request before it is served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    pub(crate) delay: Duration,
    pub(crate) answer: Option<Answer>,
    /// Serve it, then lose the answer.
    pub(crate) lose_answer: Option<Answer>,
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
        Self { inner: Mutex::new(Inner { rules: Vec::new(), random: fastrand::Rng::with_seed(seed), hits: 0 }) }
    }

    /// Adds a rule. Rules are looked at in the order in which they were added.
    pub fn add(&self, rule: Rule) {
        self.lock().rules.push(Armed::new(rule));
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().rules.clear();
    }

    /// How often a rule has struck so far.
    pub fn hits(&self) -> u64 {
        self.lock().hits
    }

    /// What the rules do to a request before it is served.
    pub(crate) fn before(&self, request: &Request<'_>) -> Before {
        let mut before = Before::default();
        let mut inner = self.lock();
        let Inner { rules, random, hits } = &mut *inner;
        for armed in rules.iter_mut() {
            let matches = !armed.rule.fault.is_about_watches() && armed.strikes(request, random);
            if !matches {
                continue;
            }
            *hits += 1;
            match &armed.rule.fault {
                Fault::Delay(delay) => before.delay += *delay,
                Fault::Answer(answer) => {
                    before.answer = Some(answer.clone());
                    break;
                }
                Fault::LoseAnswer(answer) => before.lose_answer = Some(answer.clone()),
                Fault::Expire | Fault::CutAfter(_) | Fault::CutMidFrame(_) | Fault::SilentAfter(_) => (),
            }
        }
        rules.retain(|armed| !armed.is_spent());
        before
    }

    /// What the rules do to a watch as it begins; only the first that strikes counts.
    pub(crate) fn watch(&self, request: &Request<'_>) -> Option<WatchFault> {
        let mut inner = self.lock();
        let Inner { rules, random, hits } = &mut *inner;
        let mut about_watches = rules.iter_mut().filter(|armed| armed.rule.fault.is_about_watches());
        let fault = about_watches.find_map(|armed| {
            let struck = armed.strikes(request, random);
            struck.then_some(match armed.rule.fault {
                Fault::CutAfter(frames) => WatchFault::CutAfter(frames),
                Fault::CutMidFrame(frames) => WatchFault::CutMidFrame(frames),
                Fault::SilentAfter(frames) => WatchFault::SilentAfter(frames),
                _ => WatchFault::Expired,
            })
        });
        *hits += u64::from(fault.is_some());
        rules.retain(|armed| !armed.is_spent());
        fault
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

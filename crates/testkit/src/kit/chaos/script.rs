//! Generates scripts of disturbances from seeds.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use pintle_apiserver::RequestVerb;
use pintle_apiserver::faults::{Answer, Fault, Lag, Rule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stale,
    Order,
    Chaos,
}

impl Kind {
    /// Returns the name of the check in logs.
    pub(super) fn check(self) -> &'static str {
        match self {
            Self::Stale => "survives_stale_views",
            Self::Order => "survives_reordering",
            Self::Chaos => "survives_chaos",
        }
    }
}

#[derive(Debug)]
pub(super) struct Script {
    seed: u64,
    pub(super) kind: Kind,
    pub(super) replicas: usize,
    /// The fraction of requests whose connection is cut, between 0 and 1.
    pub(super) cuts: f64,
    /// The maximum delay of a request or a response.
    pub(super) delay: Duration,
    /// The maximum delay of a watch event.
    pub(super) lag: Duration,
    /// The events of the script, with their times since the start of the run.
    pub(super) events: Vec<(Duration, Event)>,
    pub(super) end: Duration,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a script has a few events")]
pub(super) enum Event {
    Step,
    Rule(Rule),
    BreakWatches,
    /// Kills the leader. Without a leader, the number selects the process to kill.
    Kill(usize),
    /// Stops the leader gracefully, so that a standby can take over immediately.
    Stop(usize),
}

impl Script {
    /// Creates the script for `seed`. `steps` is the number of steps of the user. `views` contains the resources that
    /// the operator lists and watches.
    pub(super) fn new(seed: u64, kind: Kind, steps: usize, replicas: usize, views: &[String]) -> Self {
        let mut random = Rng::with_seed(seed);
        // Discard the first random value, because it is similar for consecutive seeds.
        random.u64(..);
        let end = random.u64(60..180);
        let mut events = Vec::new();
        let mut acts = Vec::new();
        let mut at = Duration::from_millis(random.u64(0..20_000));
        for _ in 0..steps {
            events.push((at, Event::Step));
            acts.push(at);
            let longest = [100, 3_000, 20_000][random.usize(0..3)];
            at += Duration::from_millis(random.u64(0..longest));
        }
        let end = end.max(at.as_secs() + 10);
        let time = |random: &mut Rng| near(random, &acts, Duration::from_secs(end));
        let (mut cuts, mut lag) = (0.0, Duration::ZERO);
        let delay;
        match kind {
            Kind::Order => {
                delay = Duration::from_millis(random.u64(50..500));
                lag = Duration::from_millis(random.u64(500..8_000));
            }
            Kind::Stale => {
                // Delay requests, so that the operator can observe the state between two writes.
                delay = Duration::from_millis(random.u64(50..1_500));
                for _ in 0..random.usize(2..5) {
                    let at = time(&mut random);
                    events.extend(lagging(&mut random, views).map(|rule| (at, Event::Rule(rule))));
                }
                events.extend((0..random.usize(1..4)).map(|_| (time(&mut random), ending(&mut random))));
                events.extend((0..random.usize(0..3)).flat_map(|_| relist(time(&mut random))));
                // Start the rules at time zero, so that they also delay the first watches.
                events.extend(lagging(&mut random, views).map(|rule| (Duration::ZERO, Event::Rule(rule))));
            }
            Kind::Chaos => {
                cuts = f64::from(random.u8(0..15)) / 100.0;
                delay = Duration::from_millis(random.u64(0..1_500));
                lag = Duration::from_millis(random.u64(0..4_000));
                for _ in 0..random.usize(4..12) {
                    let at = time(&mut random);
                    events.extend(disturbance(&mut random, views).into_iter().map(|event| (at, event)));
                }
            }
        }
        events.sort_by_key(|(at, _)| *at);
        Self { seed, kind, replicas, cuts, delay, lag, events, end: Duration::from_secs(end) }
    }
}

/// Returns the time of a disturbance. Most disturbances occur soon after a step, while the operator is still reacting
/// to the step.
fn near(random: &mut Rng, acts: &[Duration], end: Duration) -> Duration {
    let act = random.choice(acts).filter(|_| random.u8(0..4) > 0);
    let (from, until) = act.map_or((Duration::ZERO, end), |act| (*act, end.min(*act + Duration::from_secs(20))));
    from + (until - from).mul_f64(random.f64())
}

fn rule(fault: Fault) -> Rule {
    Rule { user_agent: Some("operator-".into()), ..Rule::new(fault) }
}

/// Returns rules that delay the operator's lists and watches of all resources, of all watched resources, or of a single
/// resource. The rules apply either to one process, as if one of several API servers lagged behind, or to most requests
/// of all processes.
fn lagging(random: &mut Rng, views: &[String]) -> impl Iterator<Item = Rule> {
    let lag = if random.bool() {
        Lag::Time(Duration::from_millis(random.u64(500..30_000)))
    } else {
        Lag::Versions(random.u64(1..40))
    };
    let until = Some(Duration::from_secs(random.u64(10..60)));
    let (process, probability) =
        if random.bool() { (format!("operator-{}", random.u8(1..5)), 1.0) } else { ("operator-".into(), 0.7) };
    let resources: Vec<Option<String>> = match random.u8(0..4) {
        // These rules also delay watches of Leases. Delayed watches do not affect leader election, because an elector
        // reads the newest version of the Lease.
        0 => vec![None],
        1 if !views.is_empty() => vec![random.choice(views).cloned()],
        _ => views.iter().cloned().map(Some).collect(),
    };
    resources.into_iter().map(move |resource| Rule {
        user_agent: Some(process.clone()),
        times: None,
        probability,
        until,
        resource,
        ..Rule::new(Fault::Lag(lag))
    })
}

fn disturbance(random: &mut Rng, views: &[String]) -> Vec<Event> {
    let until = Some(Duration::from_secs(random.u64(2..25)));
    let probability = f64::from(random.u8(10..=100)) / 100.0;
    let lasting = |fault| Rule { times: None, probability, until, ..rule(fault) };
    let rule = match random.u8(0..9) {
        0 => lasting(Fault::Answer(Answer::new([500, 503][random.usize(0..2)]))),
        1 => lasting(Fault::Answer(Answer { retry_after: Some(random.u32(1..5)), ..Answer::new(429) })),
        2 => Rule { verb: Some(RequestVerb::Patch), ..lasting(Fault::Answer(Answer::new(409))) },
        3 => lasting(Fault::LoseAnswer(Answer::new(500))),
        4 => lasting(Fault::Delay(Duration::from_millis(random.u64(100..8_000)))),
        5 => return lagging(random, views).map(Event::Rule).collect(),
        6 => {
            let frames = random.u32(0..6);
            let all = [Fault::Expire, Fault::CutAfter(frames), Fault::CutMidFrame(frames), Fault::SilentAfter(frames)];
            let fault = all[random.usize(0..all.len())].clone();
            Rule { times: Some(random.u32(1..5)), until: None, ..rule(fault) }
        }
        7 => return vec![Event::BreakWatches],
        _ => return vec![ending(random)],
    };
    vec![Event::Rule(rule)]
}

/// Breaks all watches and expires their resourceVersions. As a result, the operator must re-list, and misses some
/// events.
fn relist(at: Duration) -> [(Duration, Event); 2] {
    let expire = Rule { times: Some(2), ..rule(Fault::Expire) };
    [(at, Event::Rule(expire)), (at, Event::BreakWatches)]
}

fn ending(random: &mut Rng) -> Event {
    if random.bool() { Event::Kill(random.usize(..)) } else { Event::Stop(random.usize(..)) }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, kind, replicas, cuts, delay, lag, end, .. } = self;
        write!(f, "{kind:?} seed {seed} (PINTLE_SEEDS={seed}..{}): {replicas} replicas, ", seed + 1)?;
        write!(f, "{cuts} of the connections cut, delays up to {delay:?}, events late by up to {lag:?}")?;
        for (at, event) in &self.events {
            write!(f, "; at {at:?} {event}")?;
        }
        write!(f, "; faults end at {end:?}")
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step => f.write_str("the user's next step"),
            Self::BreakWatches => f.write_str("all watches break"),
            Self::Kill(_) => f.write_str("the leader is killed"),
            Self::Stop(_) => f.write_str("the leader is stopped"),
            Self::Rule(Rule { fault, verb, resource, user_agent, probability, until, times, .. }) => {
                write!(f, "{fault:?} for {}*", user_agent.as_deref().unwrap_or_default())?;
                resource.iter().try_for_each(|resource| write!(f, " of {resource}"))?;
                verb.iter().try_for_each(|verb| write!(f, " of {verb} requests"))?;
                times.iter().try_for_each(|times| write!(f, " {times} times"))?;
                until.iter().try_for_each(|until| write!(f, " for {until:?}"))?;
                write!(f, " with probability {probability}")
            }
        }
    }
}

//! One scripted fault.

use std::time::Duration;

use super::Request;

/// What goes wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The request is held up that long, then served.
    Delay(Duration),
    /// The request is not served; this is answered in its place.
    Answer(Answer),
    /// The request is served, and its outcome stands; but this is what is answered.
    LoseAnswer(Answer),
    /// A watch begins with an ERROR event 410, as if its version were too old.
    Expire,
    /// A watch's connection is cut after so many frames.
    CutAfter(u32),
    /// A watch's connection is cut in the middle of a frame, after so many whole ones.
    CutMidFrame(u32),
}

impl Fault {
    pub(super) fn is_about_watches(&self) -> bool {
        matches!(self, Self::Expire | Self::CutAfter(_) | Self::CutMidFrame(_))
    }
}

/// What is answered in place of the real answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The header `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// The body; none: a Status that says what the code means.
    pub body: Option<String>,
}

impl Answer {
    /// A Status with that code.
    pub fn new(code: u16) -> Self {
        Self { code, retry_after: None, body: None }
    }

    /// The same answer with the header `Retry-After`.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The same answer with that text for its body, sent as `text/plain`.
    pub fn body(mut self, text: impl Into<String>) -> Self {
        self.body = Some(text.into());
        self
    }
}

/// A fault, for whom it is, and how often it strikes.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) fault: Fault,
    verb: Option<String>,
    group: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Option<String>,
    skip: u32,
    times: Option<u32>,
    probability: f64,
}

impl Rule {
    /// A fault that strikes the next request, whatever it is, and then no more.
    pub fn once(fault: Fault) -> Self {
        Self::times(fault, 1)
    }

    /// A fault that strikes the next so many requests.
    pub fn times(fault: Fault, times: u32) -> Self {
        Self { times: Some(times), ..Self::always(fault) }
    }

    /// A fault that strikes until the rules are cleared.
    pub fn always(fault: Fault) -> Self {
        Self {
            fault,
            verb: None,
            group: None,
            resource: None,
            namespace: None,
            name: None,
            user_agent: None,
            skip: 0,
            times: None,
            probability: 1.0,
        }
    }

    /// Only requests of that verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub fn verb(mut self, verb: impl Into<String>) -> Self {
        self.verb = Some(verb.into());
        self
    }

    /// Only requests to that API group; the empty one is the core group.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only requests for that resource, by its plural, such as `pods`.
    pub fn resource(mut self, plural: impl Into<String>) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Only requests in that namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only requests for the object of that name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only requests whose `User-Agent` begins so. It does not bind faults of watches.
    pub fn user_agent(mut self, prefix: impl Into<String>) -> Self {
        self.user_agent = Some(prefix.into());
        self
    }

    /// Lets so many of the requests that it is for pass first.
    pub fn after(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes with that probability, by the server's seed.
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Whether it strikes this request; if so, that is counted.
    pub(super) fn strikes(&mut self, request: &Request<'_>, random: &mut fastrand::Rng) -> bool {
        let same = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let matches = same(&self.verb, request.verb)
            && same(&self.group, request.group)
            && same(&self.resource, request.resource)
            && same(&self.namespace, request.namespace)
            && same(&self.name, request.name)
            && self.user_agent.as_ref().is_none_or(|prefix| request.user_agent.starts_with(prefix));
        if !matches || self.is_spent() {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.probability < 1.0 && random.f64() >= self.probability {
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }

    pub(super) fn is_spent(&self) -> bool {
        self.times == Some(0)
    }
}

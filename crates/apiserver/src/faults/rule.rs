//! One scripted fault.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Request, RuleId};
use crate::verb::RequestVerb;

/// What goes wrong. The first three are for requests of any verb, the fourth for reads, the fifth for reads and watches; the others for
/// watches alone.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pintle_apiserver::faults::{Answer, Fault, Rule};
/// use pintle_apiserver::{ApiServer, ApiServerConfig, RequestVerb};
///
/// let server = ApiServer::start(ApiServerConfig::default()).await?;
/// // The next create succeeds, but its client is told that it failed.
/// let fault = Fault::LoseAnswer(Answer::new(500));
/// server.faults().add(Rule { verb: Some(RequestVerb::Create), ..Rule::new(fault) });
/// // The next watch of pods breaks off after three events, in the middle of the fourth.
/// server.faults().add(Rule { resource: Some("pods".into()), ..Rule::new(Fault::CutMidFrame(3)) });
/// // Too many requests: clients are asked to come back in a second, five times.
/// let busy = Fault::Answer(Answer { retry_after: Some(1), ..Answer::new(429) });
/// server.faults().add(Rule { verb: Some(RequestVerb::List), times: Some(5), ..Rule::new(busy) });
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The request is held up that long, then served.
    Delay(Duration),
    /// The request is not served; this is answered in its place.
    Answer(Answer),
    /// The request is served, and its outcome stands; but this is what is answered.
    LoseAnswer(Answer),
    /// A get or list that takes any version (`resourceVersion=0`), or one that is as old, gets what this version left, as from an API
    /// server whose watch cache has come no further; one that asks for a later one is refused, as not there yet. Reads that want the
    /// newest, without a `resourceVersion`, are not struck, nor are watches. The version has to be
    /// [kept](crate::ApiServerConfig::history) still.
    Stale(u64),
    /// Gets and lists that do not insist on the newest are answered, and watches are told, as by an API server whose watch cache is behind,
    /// and moves on: what [`Stale`](Self::Stale) says of reads holds of what this view shows when they are served, but that one that asks
    /// for a later version waits for a while, as with a real server. Of a watch, what it begins with is from that view unless it wants the
    /// newest, without a `resourceVersion`; each event comes once the view has come to it. It lags for as long as it lasts, and no longer
    /// than the rule's [`until`](Rule::until) or until the rule is [removed](super::Faults::remove), whichever comes first. One that lags
    /// by more changes than [`watch_buffer`](crate::ApiServerConfig::watch_buffer) is cut off as one that reads too slowly; so is one that
    /// was yet to be told what is no longer [kept](crate::ApiServerConfig::history): what is older than five minutes is not there to be told.
    Lag(Lag),
    /// A watch begins with an ERROR event 410, as if its version were too old.
    Expire,
    /// A watch's connection is cut after this many frames.
    CutAfter(u32),
    /// A watch's connection is cut in the middle of a frame, after this many whole ones.
    CutMidFrame(u32),
    /// A watch says nothing more after this many frames, and stays open beyond its time, as one behind a proxy that has lost the server.
    SilentAfter(u32),
}

impl Fault {
    /// Whether it is what happens to that request in the course of its watch, if it is one.
    pub(super) fn is_about_watch(&self, request: &Request<'_>) -> bool {
        match self {
            Self::Expire | Self::CutAfter(_) | Self::CutMidFrame(_) | Self::SilentAfter(_) => true,
            Self::Lag(_) => request.verb == Some(RequestVerb::Watch),
            Self::Delay(_) | Self::Answer(_) | Self::LoseAnswer(_) | Self::Stale(_) => false,
        }
    }
}

/// How far a view is behind. Of what is no longer [kept](crate::ApiServerConfig::history) it shows the oldest that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// It shows what was there so long ago, by tokio's clock.
    Time(Duration),
    /// It does not show the last so many versions, of whatever resources they are.
    Versions(u64),
}

/// What is answered in place of the real answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub code: u16,
    /// The header `Retry-After`, in seconds; `None` sends no such header.
    pub retry_after: Option<u32>,
    /// The body, as `text/plain`. Without one, it is a Status that says what the code means.
    pub body: Option<String>,
}

impl Answer {
    /// A Status with that code.
    pub fn new(code: u16) -> Self {
        Self { code, retry_after: None, body: None }
    }
}

/// A fault, which requests it is for, and how often it strikes.
///
/// A rule is for every request until it is narrowed: by [`verb`](Self::verb), [`group`](Self::group) and so on. Those that are
/// set have to match, all of them.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use pintle_apiserver::faults::{Answer, Fault, Rule};
/// use pintle_apiserver::{ApiServer, ApiServerConfig, RequestVerb};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::TcpStream;
///
/// let server = ApiServer::start(ApiServerConfig { seed: Some(7), ..ApiServerConfig::default() }).await?;
/// // The first get of a secret passes; the two after it are refused.
/// let (verb, resource) = (Some(RequestVerb::Get), Some("secrets".into()));
/// let refusal = Fault::Answer(Answer::new(503));
/// server.faults().add(Rule { verb, resource, after: 1, times: Some(2), ..Rule::new(refusal) });
/// // One in ten requests of a controller is slow: the same ones in each run with this seed.
/// let slow = Rule::new(Fault::Delay(Duration::from_millis(50)));
/// server.faults().add(Rule { user_agent: Some("controller/".into()), times: None, probability: 0.1, ..slow });
///
/// for expected in ["404", "503", "503", "404"] {
///     let mut connection = TcpStream::connect(server.url().trim_start_matches("http://")).await?;
///     let request = "GET /api/v1/namespaces/default/secrets/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
///     connection.write_all(request.as_bytes()).await?;
///     let mut answer = String::new();
///     connection.read_to_string(&mut answer).await?;
///     assert_eq!(answer.split(' ').nth(1), Some(expected));
/// }
/// assert_eq!(server.faults().hits(), 2);
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    /// What goes wrong.
    pub fault: Fault,
    /// The verb. Requests for what is no resource, such as `/version`, have none.
    pub verb: Option<RequestVerb>,
    /// The API group; the empty one is the core group.
    pub group: Option<String>,
    /// The resource, by its plural, such as `pods`.
    pub resource: Option<String>,
    /// The subresource, such as `status`; the empty one is the object itself. None: it is for either.
    pub subresource: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name of the object: that in the path; of a list or watch, the `metadata.name` that its field selector asks for; of a create,
    /// that in its body, and none where it is to be generated.
    pub name: Option<String>,
    /// The name of who asks, after impersonation.
    pub user: Option<String>,
    /// What the `User-Agent` begins with.
    pub user_agent: Option<String>,
    /// How many of the matching requests pass first.
    pub after: u32,
    /// How many requests it strikes, and then no more. None: it strikes until the rules are cleared.
    pub times: Option<u32>,
    /// From when on it strikes, counted from when it was added, by tokio's clock: at once.
    pub from: Duration,
    /// Until when it strikes, counted likewise. None: it has no such end.
    pub until: Option<Duration>,
    /// With which probability it strikes, from 0 to 1. Which requests it strikes follows from the server's
    /// [seed](crate::ApiServerConfig::seed) and how many rules were added before, so it is the same in each run with the same requests.
    pub probability: f64,
}

impl Rule {
    /// A fault that strikes the next request, whatever that asks for, and then no more.
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            verb: None,
            group: None,
            resource: None,
            subresource: None,
            namespace: None,
            name: None,
            user: None,
            user_agent: None,
            after: 0,
            times: Some(1),
            from: Duration::ZERO,
            until: None,
            probability: 1.0,
        }
    }

    fn matches(&self, request: &Request<'_>) -> bool {
        let same = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        let is_read = matches!(request.verb, Some(RequestVerb::Get | RequestVerb::List)) && !request.version.is_empty();
        let is_meant = match self.fault {
            Fault::Stale(_) => is_read,
            Fault::Lag(_) => is_read || request.verb == Some(RequestVerb::Watch),
            _ => true,
        };
        is_meant
            && self.verb.is_none_or(|verb| request.verb == Some(verb))
            && same(&self.group, request.group)
            && same(&self.resource, request.resource)
            && same(&self.subresource, request.subresource)
            && same(&self.namespace, request.namespace)
            && same(&self.name, request.name)
            && same(&self.user, request.user)
            && self.user_agent.as_ref().is_none_or(|prefix| request.user_agent.starts_with(prefix))
    }
}

/// A rule, and how far it has come.
#[derive(Debug)]
pub(super) struct Armed {
    pub(super) id: RuleId,
    pub(super) rule: Rule,
    random: fastrand::Rng,
    added: Instant,
    passed: u32,
    struck: u32,
    /// Tells what lasts beyond a strike when the rule goes.
    lifted: CancellationToken,
    _lifts: DropGuard,
}

impl Armed {
    pub(super) fn new(id: RuleId, rule: Rule, random: fastrand::Rng) -> Self {
        let lifted = CancellationToken::new();
        let _lifts = lifted.clone().drop_guard();
        Self { id, rule, random, added: Instant::now(), passed: 0, struck: 0, lifted, _lifts }
    }

    /// Whether it strikes this request; if so, that is counted.
    pub(super) fn strikes(&mut self, request: &Request<'_>) -> bool {
        if self.is_spent() || !self.rule.matches(request) || self.added.elapsed() < self.rule.from {
            return false;
        }
        if self.passed < self.rule.after {
            self.passed += 1;
            return false;
        }
        if self.rule.probability < 1.0 && self.random.f64() >= self.rule.probability {
            return false;
        }
        self.struck += 1;
        true
    }

    fn is_spent(&self) -> bool {
        self.rule.times.is_some_and(|times| self.struck >= times) || self.is_past()
    }

    fn is_past(&self) -> bool {
        self.rule.until.is_some_and(|until| self.added.elapsed() >= until)
    }

    /// Whether nothing more comes of it.
    pub(super) fn is_over(&self) -> bool {
        match self.rule.fault {
            Fault::Lag(_) => self.is_past(),
            _ => self.is_spent(),
        }
    }

    /// When it ends; none if it does not, or so late that nobody sees it.
    pub(super) fn until(&self) -> Option<Instant> {
        self.added.checked_add(self.rule.until?)
    }

    /// Done when the rule has gone.
    pub(super) fn lifted(&self) -> CancellationToken {
        self.lifted.clone()
    }
}

//! Fault rules. Each rule has a scripted fault, and conditions that select the affected requests.

use std::time::Duration;

use pintle_apimachinery::verb::RequestVerb;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Request, RuleId};

/// A kind of fault. `Delay`, `Answer` and `LoseAnswer` affect all requests, `Stale` affects reads, `Lag` affects reads
/// and watches, and the other faults affect only watches.
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
/// // The next create request succeeds, but its client receives an error.
/// let fault = Fault::LoseAnswer(Answer::new(500));
/// server.faults().add(Rule { verb: Some(RequestVerb::Create), ..Rule::new(fault) });
/// // The next watch of pods is cut in the middle of its fourth event.
/// server.faults().add(Rule { resource: Some("pods".into()), ..Rule::new(Fault::CutMidFrame(3)) });
/// // The next five lists receive status 429 with `Retry-After: 1`.
/// let busy = Fault::Answer(Answer { retry_after: Some(1), ..Answer::new(429) });
/// server.faults().add(Rule { verb: Some(RequestVerb::List), times: Some(5), ..Rule::new(busy) });
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The server waits for this duration before it processes the request.
    Delay(Duration),
    /// Sends this answer instead of processing the request.
    Answer(Answer),
    /// Processes the request, including its writes, but sends this answer instead of the real response.
    LoseAnswer(Answer),
    /// Serves reads from the store's state at this revision, like an API server whose watch cache never catches up.
    ///
    /// `Stale` affects only gets and lists with a `resourceVersion`. A read with `resourceVersion=0`, with this
    /// revision or with an earlier revision returns the state at this revision. A read with a later revision fails, as
    /// if the watch cache of a kube-apiserver had not reached the revision yet. The revision must still be in the
    /// [history](crate::ApiServerConfig::history).
    Stale(u64),
    /// Serves reads and watches from an older state of the store, like an API server whose watch cache lags behind but
    /// makes progress.
    ///
    /// - A read returns the older state, with the same rules as for [`Stale`](Self::Stale). A read with a later
    ///   revision waits a limited time for this revision, as in kube-apiserver.
    /// - The initial events of a watch describe the older state, except for a watch without `resourceVersion`, which
    ///   requests the latest state. The server delays each later event until the older state reaches the event's
    ///   revision.
    /// - A watch stops lagging when the rule [expires](Rule::until) or is [removed](super::Faults::remove).
    /// - Like the watch of a slow client, a lagging watch is closed if it lags by more than
    ///   [`watch_buffer`](crate::ApiServerConfig::watch_buffer) changes. A watch is also closed if the
    ///   [history](crate::ApiServerConfig::history) drops an unsent event, which can happen after five minutes.
    Lag(Lag),
    /// Makes a watch start with an ERROR event with code 410, as if the watch's revision had expired.
    Expire,
    /// Closes a watch's connection after this many frames.
    CutAfter(u32),
    /// Sends this many whole frames on a watch, and then closes the connection in the middle of the next frame.
    CutMidFrame(u32),
    /// Sends this many frames on a watch, and then keeps the watch open without sending more frames, even after its
    /// timeout. This fault simulates a proxy that has lost its connection to the server.
    SilentAfter(u32),
}

impl Fault {
    /// Returns `true` if the fault applies to a running watch. The server applies all other faults before it processes
    /// the request.
    pub(super) fn affects_running_watch(&self, request: &Request<'_>) -> bool {
        match self {
            Self::Expire | Self::CutAfter(_) | Self::CutMidFrame(_) | Self::SilentAfter(_) => true,
            Self::Lag(_) => request.verb == Some(RequestVerb::Watch),
            Self::Delay(_) | Self::Answer(_) | Self::LoseAnswer(_) | Self::Stale(_) => false,
        }
    }
}

/// How far the served state lags behind the latest state. If the lagging state is no longer in the
/// [history](crate::ApiServerConfig::history), the server serves the oldest state in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// The lag as a duration, measured with tokio's clock.
    Time(Duration),
    /// The lag as a number of revisions, including the revisions of other resources.
    Versions(u64),
}

/// A scripted response that replaces the real response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status code.
    pub code: u16,
    /// The value of the `Retry-After` header, in seconds, or `None` to omit the header.
    pub retry_after: Option<u32>,
    /// The body, which is sent as `text/plain`. If `None`, the body is a Status object with the code `code`.
    pub body: Option<String>,
}

impl Answer {
    /// Creates an answer with a Status object as its body.
    pub fn new(code: u16) -> Self {
        Self { code, retry_after: None, body: None }
    }
}

/// A rule that injects a fault into matching requests, up to a maximum number of times.
///
/// Fields such as [`verb`](Self::verb) and [`group`](Self::group) are conditions. A rule applies to requests that meet
/// all of its conditions, and a rule without conditions applies to all requests.
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
/// // The first get of a secret succeeds. The next two fail.
/// let (verb, resource) = (Some(RequestVerb::Get), Some("secrets".into()));
/// let refusal = Fault::Answer(Answer::new(503));
/// server.faults().add(Rule { verb, resource, after: 1, times: Some(2), ..Rule::new(refusal) });
/// // One in ten of the controller's requests is slow. With a fixed seed, each run delays the same requests.
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
    /// The fault that occurs when the rule fires.
    pub fault: Fault,
    /// The verb. Requests without a resource, such as `/version`, have no verb.
    pub verb: Option<RequestVerb>,
    /// The API group, or an empty string for the core group.
    pub group: Option<String>,
    /// The plural name of the resource, such as `pods`.
    pub resource: Option<String>,
    /// The subresource, such as `status`. An empty string matches only requests without a subresource, and `None`
    /// matches all requests.
    pub subresource: Option<String>,
    /// The namespace of the request.
    pub namespace: Option<String>,
    /// The name of the object. For a list or watch, this is the `metadata.name` in the field selector. For a create
    /// request, this is the name in the body, which is empty if the server generates the name.
    pub name: Option<String>,
    /// The user name, after impersonation.
    pub user: Option<String>,
    /// A prefix of the request's `User-Agent` header.
    pub user_agent: Option<String>,
    /// The number of matching requests to ignore before the rule can fire.
    pub after: u32,
    /// The maximum number of times that the rule can fire. If `None`, the rule can fire any number of times.
    pub times: Option<u32>,
    /// The minimum time between adding the rule and its first firing, measured with tokio's clock. Default: zero.
    pub from: Duration,
    /// The time from adding the rule until it expires, measured with tokio's clock. If `None`, the rule does not
    /// expire.
    pub until: Option<Duration>,
    /// The probability that the rule fires for a matching request, from 0 to 1. The random choices depend only on the
    /// server's [seed](crate::ApiServerConfig::seed) and on the number of rules that were added before this rule. Runs
    /// with the same requests therefore make the same choices.
    pub probability: f64,
}

impl Rule {
    /// Creates a rule that applies to all requests and fires once.
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
        let fits =
            |expected: &Option<String>, actual: &str| expected.as_ref().is_none_or(|expected| expected == actual);
        let is_read = matches!(request.verb, Some(RequestVerb::Get | RequestVerb::List)) && !request.version.is_empty();
        let is_affected = match self.fault {
            Fault::Stale(_) => is_read,
            Fault::Lag(_) => is_read || request.verb == Some(RequestVerb::Watch),
            _ => true,
        };
        is_affected
            && self.verb.is_none_or(|verb| request.verb == Some(verb))
            && fits(&self.group, request.group)
            && fits(&self.resource, request.resource)
            && fits(&self.subresource, request.subresource)
            && fits(&self.namespace, request.namespace)
            && fits(&self.name, request.name)
            && fits(&self.user, request.user)
            && self.user_agent.as_ref().is_none_or(|prefix| request.user_agent.starts_with(prefix))
    }
}

#[derive(Debug)]
pub(super) struct ArmedRule {
    pub(super) id: RuleId,
    pub(super) rule: Rule,
    random: fastrand::Rng,
    added_at: Instant,
    /// The number of matching requests that were ignored because of [`Rule::after`].
    ignored_matches: u32,
    fire_count: u32,
    /// A token that is cancelled when the rule is removed. Watches then send the events that the rule has delayed.
    removed: CancellationToken,
    _cancel_on_drop: DropGuard,
}

impl ArmedRule {
    pub(super) fn new(id: RuleId, rule: Rule, random: fastrand::Rng) -> Self {
        let removed = CancellationToken::new();
        let _cancel_on_drop = removed.clone().drop_guard();
        Self { id, rule, random, added_at: Instant::now(), ignored_matches: 0, fire_count: 0, removed, _cancel_on_drop }
    }

    pub(super) fn try_fire(&mut self, request: &Request<'_>) -> bool {
        if self.is_spent() || !self.rule.matches(request) || self.added_at.elapsed() < self.rule.from {
            return false;
        }
        if self.ignored_matches < self.rule.after {
            self.ignored_matches += 1;
            return false;
        }
        if self.rule.probability < 1.0 && self.random.f64() >= self.rule.probability {
            return false;
        }
        self.fire_count += 1;
        true
    }

    fn is_spent(&self) -> bool {
        self.rule.times.is_some_and(|times| self.fire_count >= times) || self.is_expired()
    }

    fn is_expired(&self) -> bool {
        self.rule.until.is_some_and(|until| self.added_at.elapsed() >= until)
    }

    pub(super) fn can_be_dropped(&self) -> bool {
        match self.rule.fault {
            Fault::Lag(_) => self.is_expired(),
            _ => self.is_spent(),
        }
    }

    /// Returns the expiry time of the rule. Returns `None` if the rule never expires, or if the expiry is too far in
    /// the future for an `Instant`.
    pub(super) fn until(&self) -> Option<Instant> {
        self.added_at.checked_add(self.rule.until?)
    }

    pub(super) fn removed(&self) -> CancellationToken {
        self.removed.clone()
    }
}

//! One scripted fault.

use std::time::Duration;

use super::Request;

/// What goes wrong. The first three are for requests of any verb; the others for watches alone.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use pintle_apiserver::faults::{Answer, Fault, Rule};
/// use pintle_apiserver::{ApiServer, ApiServerConfig};
///
/// let server = ApiServer::start(ApiServerConfig::default()).await?;
/// // The next create succeeds, but its client is told that it failed.
/// server.faults().add(Rule::once(Fault::LoseAnswer(Answer::new(500))).verb("create"));
/// // The next watch of pods breaks off after three events, in the middle of the fourth.
/// server.faults().add(Rule::once(Fault::CutMidFrame(3)).resource("pods"));
/// // Too many requests: clients are asked to come back in a second.
/// server.faults().add(Rule::times(Fault::Answer(Answer::new(429).retry_after(1)), 5).verb("list"));
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
    /// A watch begins with an ERROR event 410, as if its version were too old.
    Expire,
    /// A watch's connection is cut after this many frames.
    CutAfter(u32),
    /// A watch's connection is cut in the middle of a frame, after this many whole ones.
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

/// A fault, which requests it is for, and how often it strikes.
///
/// A rule is for every request until it is narrowed: by [`verb`](Self::verb), [`group`](Self::group) and so on, all of which
/// have to match.
///
/// # Examples
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use pintle_apiserver::faults::{Answer, Fault, Rule};
/// use pintle_apiserver::{ApiServer, ApiServerConfig};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use tokio::net::TcpStream;
///
/// let server = ApiServer::start(ApiServerConfig { seed: Some(7), ..ApiServerConfig::default() }).await?;
/// // The first get of a secret passes; the two after it are refused.
/// let refusal = Rule::times(Fault::Answer(Answer::new(503)), 2).verb("get").resource("secrets").after(1);
/// server.faults().add(refusal);
/// // One in ten requests of a controller is slow: the same ones in each run with this seed.
/// let slow = Rule::always(Fault::Delay(Duration::from_millis(50))).user_agent("controller/").probability(0.1);
/// server.faults().add(slow);
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
    /// A fault that strikes the next request that matches, and then no more.
    pub fn once(fault: Fault) -> Self {
        Self::times(fault, 1)
    }

    /// A fault that strikes this many requests, and then no more.
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

    /// Only requests with that verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
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

    /// Only requests whose `User-Agent` begins with this prefix.
    pub fn user_agent(mut self, prefix: impl Into<String>) -> Self {
        self.user_agent = Some(prefix.into());
        self
    }

    /// Lets this many of the matching requests pass first.
    pub fn after(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes with that probability, from 0 to 1. Which requests it strikes follows from the server's
    /// [seed](crate::ApiServerConfig::seed), so it is the same in each run with the same requests.
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

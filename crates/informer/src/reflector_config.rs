//! How a reflector is configured.

use std::time::Duration;

use pintle_meta::{FieldSelector, LabelSelector};
use pintle_ratelimit::BackoffConfig;

/// How a [`Reflector`](crate::reflector::Reflector) lists and watches.
///
/// The defaults are client-go's, with these exceptions: streaming lists are off (client-go turned them on by default in 1.35), a silent
/// watch is given up, and a list or a watch that gets no answer has a deadline.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, ReflectorConfig};
/// use pintle_meta::{FieldSelector, PartialObject};
///
/// let running = FieldSelector::everything().equals("status.phase", "Running");
/// let reflector = ReflectorConfig { field_selector: running, streaming_list: true, ..ReflectorConfig::default() };
/// let config: InformerConfig<PartialObject> = InformerConfig { reflector, ..InformerConfig::default() };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ReflectorConfig {
    /// Only objects whose labels match, in the server's eyes.
    pub label_selector: LabelSelector,
    /// Only objects whose fields match, in the server's eyes.
    pub field_selector: FieldSelector,
    /// The revision of which the first list must not be older: what this process, or the one before it, has seen or written.
    /// Without it the first list is what the server has at hand, which may be from before that.
    ///
    /// A server that lags behind it is asked for its newest state. Is that older too, the reflector waits for it, and
    /// [says so](crate::ReflectorError::WentBack); of a server that was restored from an older backup, until its revisions have come that
    /// far. Of a revision that is no number, it is left to the server. Empty, the default: any state will do.
    pub not_older_than: String,
    /// The most objects in a page of a list. None: 500 where paging costs the server nothing extra, and else all at once.
    pub page_size: Option<u32>,
    /// Whether to ask for the first state as a stream (`sendInitialEvents`), which takes less memory on both sides. Where the
    /// server refuses or does not finish, the reflector lists, and does without streams for 10 minutes; for twice as long each time in
    /// a row, up to 6 hours. Off by default, since a server too old to know of it costs `streaming_list_idle_timeout` before the
    /// first list.
    pub streaming_list: bool,
    /// For how long a streaming list may bring no object that it has not brought before. Then it counts as unfinished, and so it does when
    /// the time of its watch is over.
    pub streaming_list_idle_timeout: Duration,
    /// How long a list may bring nothing, neither an answer nor a further part of a page, and how long the answer to a watch may take. After
    /// that the connection counts as dead, and the request as failed. Two minutes by default, which is longer than a REST client of this
    /// project waits; so this is for other sources.
    pub list_idle_timeout: Duration,
    /// The shortest time after which the server is asked to end a watch: one is chosen between this and twice as much. Less than 5
    /// minutes, the default, is as much as that.
    pub watch_timeout: Duration,
    /// For how long a watch may bring nothing at all, not even a bookmark. After that the connection counts as dead, and the watch is
    /// opened anew at the last revision, which costs one request.
    ///
    /// None, the default: for `watch_grace` longer than bookmarks are apart, which a kube-apiserver sends about every minute; so a minute
    /// and a half. Each watch that falls silent before the next bookmark comes makes it twice as long, so that a server which sends none is
    /// asked in vain once or twice, until the time of the watch and `watch_grace` is less than that.
    pub watch_idle_timeout: Option<Duration>,
    /// How much longer than asked a watch may last. After that the connection counts as dead, and the watch is opened anew.
    pub watch_grace: Duration,
    /// The delays after failures. They start over after a list that completed and a watch that did its work:
    /// [`Reflector`](crate::reflector::Reflector) says which.
    pub backoff: BackoffConfig,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            label_selector: LabelSelector::everything(),
            field_selector: FieldSelector::everything(),
            not_older_than: String::new(),
            page_size: None,
            streaming_list: false,
            streaming_list_idle_timeout: Duration::from_secs(60),
            list_idle_timeout: Duration::from_secs(120),
            watch_timeout: Duration::from_secs(300),
            watch_idle_timeout: None,
            watch_grace: Duration::from_secs(30),
            backoff: BackoffConfig::default(),
        }
    }
}

//! Configuration of reflectors.

use std::time::Duration;

use pintle_meta::{FieldSelector, LabelSelector};
use pintle_ratelimit::BackoffConfig;

/// Configures how a [`Reflector`](crate::reflector::Reflector) lists and watches.
///
/// The defaults are client-go's, with these exceptions: streaming lists are off (client-go has them on by default since
/// 1.35), a silent watch is reopened, and unanswered lists and watches have a deadline.
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
    /// Selects objects by labels, on the server.
    pub label_selector: LabelSelector,
    /// Selects objects by fields, on the server.
    pub field_selector: FieldSelector,
    /// The minimum revision of the first list: a revision that this process, or the previous one, has seen or written.
    /// Without it, the first list returns what the server has at hand, which may be older.
    ///
    /// If the server lags behind this revision, the reflector asks for the newest state. If that is older too, it waits
    /// and reports [`WentBack`](crate::ReflectorError::WentBack). After a restore from an older backup, it waits until
    /// the server has reached the revision again. A revision that is not a number is left to the server. Empty, the
    /// default, accepts any state.
    pub not_older_than: String,
    /// The page size of lists. `None` means 500 if pages cost the server nothing extra, and otherwise no pages.
    pub page_size: Option<u32>,
    /// Whether to request the initial state as a stream (`sendInitialEvents`), which needs less memory on both sides.
    /// If the server refuses or does not finish, the reflector lists, and pauses streams for 10 minutes, doubling up to
    /// 6 hours. Off by default, because a server that is too old for streams delays the first list by
    /// `streaming_list_idle_timeout`.
    pub streaming_list: bool,
    /// How long a streaming list may deliver no new object. After that, or when the timeout of its watch has passed, it
    /// counts as unfinished.
    pub streaming_list_idle_timeout: Duration,
    /// How long a list may deliver no response and no further part of a page, and how long a watch request may be
    /// unanswered. After that, the connection counts as dead and the request as failed. The default is two minutes. This
    /// is longer than the timeouts of this project's REST client, so it matters for other sources.
    pub list_idle_timeout: Duration,
    /// The minimum timeout of a watch. The reflector picks a timeout between this and twice as much. The default of 5
    /// minutes is also the minimum.
    pub watch_timeout: Duration,
    /// How long a watch may deliver nothing, not even a bookmark. After that the connection counts as dead, and the
    /// watch is reopened at the last revision, which costs one request.
    ///
    /// `None`, the default, means the time between bookmarks plus `watch_grace`. kube-apiserver sends bookmarks about
    /// every minute, so this is a minute and a half. Each silent watch doubles the time until the next bookmark
    /// arrives. So if a server sends no bookmarks, one or two watches are reopened in vain, until the timeout of the
    /// watch plus `watch_grace` is shorter.
    pub watch_idle_timeout: Option<Duration>,
    /// How much longer than its timeout a watch may last. After that the connection counts as dead, and the watch is
    /// reopened.
    pub watch_grace: Duration,
    /// The delays after failures. They are reset after a complete list and a successful watch: see
    /// [`Reflector`](crate::reflector::Reflector).
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

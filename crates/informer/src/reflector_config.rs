//! Configuration of reflectors.

use std::time::Duration;

use pintle_meta::{FieldSelector, LabelSelector};
use pintle_ratelimit::BackoffConfig;

/// Configures how a [`Reflector`](crate::reflector::Reflector) lists and watches.
///
/// The defaults are client-go's, with three exceptions: streaming lists are off, a silent watch is reopened, and
/// unanswered lists and watches have a deadline. client-go enables streaming lists by default since 1.35.
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
    /// The label selector for lists and watches, evaluated by the server. The default selects everything.
    pub label_selector: LabelSelector,
    /// The field selector for lists and watches, evaluated by the server. The default selects everything.
    pub field_selector: FieldSelector,
    /// The minimum revision of the first list. For example, use a revision that this process or its predecessor has
    /// seen or written. Without a minimum, the first list may return an old state from the server's cache.
    ///
    /// If the server lags behind this revision, the reflector requests the newest state. If the newest state is also
    /// older, the reflector retries with delays and reports [`WentBack`](crate::ReflectorError::WentBack). After a
    /// restore from an older backup, the reflector waits until the server has reached this revision again. If the
    /// revision is not a number, the reflector sends it to the server, but cannot check the returned lists. An empty
    /// string, the default, accepts any state.
    pub not_older_than: String,
    /// The page size of lists. With `None`, the default, pages have 500 objects if paging causes no extra work for the
    /// server. Otherwise, lists are not paged.
    pub page_size: Option<u32>,
    /// Whether to request the initial state as a stream (`sendInitialEvents`). A stream needs less memory in both the
    /// client and the server. If the server rejects the request as invalid or does not finish the list, the reflector
    /// uses paged lists for 10 minutes. This time doubles with each such failure, up to 6 hours. Streaming lists are
    /// off by default, because a server without streaming lists would delay the first list by
    /// `streaming_list_idle_timeout`.
    pub streaming_list: bool,
    /// The maximum time between two new objects in a streaming list. After this time, or after the timeout of the watch
    /// itself, the reflector gives up the streaming list. The default is one minute.
    pub streaming_list_idle_timeout: Duration,
    /// How long a list or watch request may wait for a response, and how long a list may wait for the next object of a
    /// page. After this time, the connection counts as dead, and the request fails. The default is two minutes. This
    /// project's REST client has shorter timeouts, so this setting only matters for other sources.
    pub list_idle_timeout: Duration,
    /// The minimum timeout of a watch. The reflector picks a random timeout between `watch_timeout` and twice
    /// `watch_timeout`. The default is 5 minutes, and smaller values are raised to 5 minutes.
    pub watch_timeout: Duration,
    /// The maximum time between two events or bookmarks of a watch. After this time, the connection counts as dead, and
    /// the reflector reopens the watch at the last revision. Reopening a watch costs one request.
    ///
    /// `None`, the default, uses the time between bookmarks plus `watch_grace`. kube-apiserver sends bookmarks about
    /// every minute, so this limit is about a minute and a half. After each silent watch, the limit doubles until a
    /// bookmark arrives. If a server sends no bookmarks, only the first two or three quiet watches are therefore
    /// reopened unnecessarily. After that, the doubled limit exceeds the normal timeout of a watch plus `watch_grace`.
    pub watch_idle_timeout: Option<Duration>,
    /// How long a watch may stay open after its timeout. After this time, the connection counts as dead, and the
    /// reflector reopens the watch. The default is 30 seconds.
    pub watch_grace: Duration,
    /// The delays after failures. A complete list or a successful watch resets the delays, as
    /// [`Reflector`](crate::reflector::Reflector) describes.
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

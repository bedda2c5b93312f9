//! Configuration of reflectors.

use std::time::Duration;

use pintle_meta::{FieldSelector, LabelSelector};
use pintle_ratelimit::BackoffConfig;

/// Configures how a [`Reflector`](crate::reflector::Reflector) lists and watches.
///
/// The defaults are client-go's, with three exceptions. Streaming lists are off, a silent watch is reopened, and
/// unanswered lists and watches have a deadline. Since 1.35, client-go enables streaming lists by default.
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
    /// The label selector of lists and watches. The server evaluates the selector.
    pub label_selector: LabelSelector,
    /// The field selector of lists and watches. The server evaluates the selector.
    pub field_selector: FieldSelector,
    /// The minimum revision of the first list. Set this field to a revision that this process or its predecessor has
    /// seen or written. Without a minimum, the first list returns the state in the server's cache, and this state may
    /// be old.
    ///
    /// If the server lags behind this revision, the reflector requests the newest state. If the newest state is also
    /// older than this revision, the reflector waits and reports [`WentBack`](crate::ReflectorError::WentBack). After a
    /// restore from an older backup, the reflector waits until the server has reached this revision again. If the
    /// revision is not a number, the reflector sends it to the server, but cannot check whether a list is older than
    /// it. An empty string, the default, accepts any state.
    pub not_older_than: String,
    /// The page size of lists. `None`, the default, uses pages of 500 objects if pages cause no extra work for the
    /// server. Otherwise, a list is not split into pages.
    pub page_size: Option<u32>,
    /// Whether to request the initial state as a stream (`sendInitialEvents`). A stream needs less memory in both the
    /// client and the server. If the server rejects or does not finish a streaming list, the reflector uses a paged
    /// list instead. The reflector then uses paged lists for 10 minutes. The time without streaming lists doubles with
    /// each failure, up to 6 hours. Streaming lists are off by default, because a server that is too old for them would
    /// delay the first list by `streaming_list_idle_timeout`.
    pub streaming_list: bool,
    /// The maximum time between two new objects of a streaming list. After that time, the list counts as unfinished. A
    /// list that outlasts the timeout of its watch also counts as unfinished.
    pub streaming_list_idle_timeout: Duration,
    /// How long a list or a watch request may wait for a response. The same limit applies while a list waits for the
    /// next object of a page. After that time, the connection counts as dead, and the request fails. The default is two
    /// minutes. The default is longer than the timeouts of this project's REST client, so the limit only matters for
    /// other sources.
    pub list_idle_timeout: Duration,
    /// The minimum timeout of a watch. The reflector picks a random timeout between this value and twice this value.
    /// The default is 5 minutes. Smaller values are raised to 5 minutes.
    pub watch_timeout: Duration,
    /// The maximum time between two events or bookmarks of a watch. After that time, the connection counts as dead, and
    /// the reflector reopens the watch at the last revision. Reopening a watch costs one request.
    ///
    /// `None`, the default, means the time between bookmarks plus `watch_grace`. kube-apiserver sends bookmarks about
    /// every minute, so the default is about a minute and a half. After each silent watch, the limit doubles, until a
    /// bookmark arrives. So if a server sends no bookmarks, only one or two watches are reopened unnecessarily. Later
    /// watches end at their normal timeout plus `watch_grace`, because that time is shorter than the doubled limit.
    pub watch_idle_timeout: Option<Duration>,
    /// How long a watch may stay open after its timeout. After that time, the connection counts as dead, and the
    /// reflector reopens the watch.
    pub watch_grace: Duration,
    /// The delays after failures. A complete list or a successful watch resets the delays: see
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

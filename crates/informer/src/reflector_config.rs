//! Configuration of reflectors.

use std::time::Duration;

use pintle_meta::{FieldSelector, LabelSelector};
use pintle_ratelimit::BackoffConfig;

/// Configures how a [`Reflector`](crate::reflector::Reflector) lists and watches.
///
/// The defaults match client-go, with three exceptions: streaming lists are disabled, a silent watch is reopened, and
/// lists and watches fail if they receive no response. client-go enables streaming lists by default since version 1.35.
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
    /// The label selector for lists and watches. The server filters the objects by this selector. The default selector
    /// matches all objects.
    pub label_selector: LabelSelector,
    /// The field selector for lists and watches. The server filters the objects by this selector. The default selector
    /// matches all objects.
    pub field_selector: FieldSelector,
    /// The minimum revision of the first list. A suitable revision is one that this process or its predecessor has read
    /// or written. Without a minimum revision, the first list may return an old state from the server's cache.
    ///
    /// If the list returns an older revision, the reflector requests the newest state. If the newest state is also
    /// older, the reflector retries with delays and reports [`WentBack`](crate::ReflectorError::WentBack). If the
    /// server was restored from an older backup, the reflector waits until the server has reached this revision again.
    /// If the revision is not a number, the reflector sends it to the server, but cannot check the returned lists. An
    /// empty string, the default, accepts any state.
    pub not_older_than: String,
    /// The page size of lists. With `None`, the default, pages have 500 objects, but lists that the server can answer
    /// from its watch cache are not paged.
    pub page_size: Option<u32>,
    /// Whether to request the initial state as a stream (`sendInitialEvents`). A stream needs less memory in the client
    /// and in the server. If the server rejects the request as invalid or does not finish the stream, the reflector
    /// uses paged lists for 10 minutes. Each further failure doubles the 10 minutes, up to 6 hours. Streaming lists are
    /// disabled by default, because a server without streaming lists would delay the first list by
    /// `streaming_list_idle_timeout`.
    pub streaming_list: bool,
    /// The maximum time without a new object in a streaming list. When `streaming_list_idle_timeout` or the timeout of
    /// the watch has passed, the reflector abandons the streaming list. The default is one minute.
    pub streaming_list_idle_timeout: Duration,
    /// The maximum time that a list or watch request waits for a response, and that a list waits for the next object of
    /// a page. If a request waits longer, its connection is considered dead, and the request fails. The default is two
    /// minutes. The REST client of this project has shorter timeouts, so this setting only affects other sources.
    pub list_idle_timeout: Duration,
    /// The minimum timeout of a watch. The reflector chooses a random timeout between `watch_timeout` and twice
    /// `watch_timeout`. The default is 5 minutes, which is also the minimum: smaller values are raised to 5 minutes.
    pub watch_timeout: Duration,
    /// The maximum time without an event or bookmark in a watch. If a watch is silent for longer, its connection is
    /// considered dead, and the reflector reopens the watch at the last revision. Reopening a watch costs one request.
    ///
    /// With `None`, the default, the limit is the time between bookmarks plus `watch_grace`. kube-apiserver sends
    /// bookmarks about every minute, so the limit is about a minute and a half. After each silent watch, the limit
    /// doubles until a bookmark arrives. If a server sends no bookmarks, only the first two or three quiet watches are
    /// reopened unnecessarily. After two or three silent watches, the limit exceeds the normal timeout of a watch plus
    /// `watch_grace`. After consecutive silent watches, the reflector lists the resource, as
    /// [`Reflector`](crate::reflector::Reflector) describes.
    pub watch_idle_timeout: Option<Duration>,
    /// The maximum time that a watch may stay open after its timeout. If a watch stays open for longer, its connection
    /// is considered dead, and the reflector reopens the watch. The default is 30 seconds.
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

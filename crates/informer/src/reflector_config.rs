//! How a reflector is configured.

use std::time::Duration;

use pintle_meta::{FieldSelector, LabelSelector};
use pintle_ratelimit::BackoffConfig;

/// How a [`Reflector`](crate::reflector::Reflector) lists and watches. The defaults are client-go's.
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
#[derive(Clone, Debug)]
pub struct ReflectorConfig {
    /// Only objects whose labels match, in the server's eyes.
    pub label_selector: LabelSelector,
    /// Only objects whose fields match, in the server's eyes.
    pub field_selector: FieldSelector,
    /// The most objects in a page of a list. None: 500 where paging costs the server nothing extra, and else all at once.
    pub page_size: Option<u32>,
    /// Whether to ask for the first state as a stream (`sendInitialEvents`), which takes less memory on both sides. Where the
    /// server refuses or does not finish, the reflector lists. Off by default, since a server too old to know of it costs
    /// `streaming_list_deadline` before the first list.
    pub streaming_list: bool,
    /// How long a streaming list may take.
    pub streaming_list_deadline: Duration,
    /// The shortest time after which the server is asked to end a watch: one is chosen between this and twice as much.
    pub watch_timeout: Duration,
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
            page_size: None,
            streaming_list: false,
            streaming_list_deadline: Duration::from_secs(60),
            watch_timeout: Duration::from_secs(300),
            watch_grace: Duration::from_secs(30),
            backoff: BackoffConfig::default(),
        }
    }
}

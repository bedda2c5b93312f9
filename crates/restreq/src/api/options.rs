//! Converts request options to query parameters.

use std::time::Duration;

use http::Method;
use pintle_meta::{FieldValidation, ListOptions, WatchOptions, WriteOptions};

use crate::request::Request;

pub(super) fn with_list_options(request: Request, options: &ListOptions) -> Request {
    let limit = if options.limit == 0 { String::new() } else { options.limit.to_string() };
    params(
        request,
        [
            ("labelSelector", options.label_selector.to_string().as_str()),
            ("fieldSelector", &options.field_selector.to_string()),
            ("shardSelector", &options.shard_selector),
            ("resourceVersion", &options.resource_version),
            ("resourceVersionMatch", options.resource_version_match.map_or("", |rule| rule.as_str())),
            ("limit", &limit),
            ("continue", &options.continue_token),
        ],
    )
}

pub(super) fn with_watch_options(request: Request, options: &WatchOptions) -> Request {
    let seconds = options.timeout.map(|timeout| timeout.as_secs().clamp(1, LONGEST_WATCH));
    let text = |flag| if flag { "true" } else { "" };
    let request = params(
        request,
        [
            ("watch", "true"),
            ("labelSelector", &options.label_selector.to_string()),
            ("fieldSelector", &options.field_selector.to_string()),
            ("shardSelector", &options.shard_selector),
            ("resourceVersion", &options.resource_version),
            ("resourceVersionMatch", options.resource_version_match.map_or("", |rule| rule.as_str())),
            ("allowWatchBookmarks", text(options.allow_bookmarks)),
            ("sendInitialEvents", text(options.send_initial_events)),
            ("timeoutSeconds", &seconds.map(|seconds| seconds.to_string()).unwrap_or_default()),
        ],
    );
    match seconds {
        // The server closes the watch after `seconds`. If the watch is still open and idle `WATCH_GRACE` later, the
        // connection is probably lost, so close it.
        Some(seconds) => request.idle_timeout(Duration::from_secs(seconds) + WATCH_GRACE),
        None => request,
    }
}

pub(super) fn with_write_options(request: Request, options: &WriteOptions) -> Request {
    // Only patches have the parameter `force`. The same options are often used for applies and creates.
    let force = options.force && request.parts.method == Method::PATCH;
    params(
        request,
        [
            ("dryRun", if options.dry_run { "All" } else { "" }),
            ("fieldManager", &options.field_manager),
            ("fieldValidation", options.field_validation.map_or("", FieldValidation::as_str)),
            ("force", if force { "true" } else { "" }),
        ],
    )
}

/// Adds query parameters to a request, but skips parameters with an empty value.
fn params<const N: usize>(request: Request, pairs: [(&str, &str); N]) -> Request {
    pairs
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .fold(request, |request, (key, value)| request.param(key, value))
}

/// The maximum timeout of a watch, in seconds. Go represents a duration as a 63-bit number of nanoseconds. With a
/// longer timeout, this number could overflow, and the server would close the watch immediately.
const LONGEST_WATCH: u64 = i32::MAX as u64;

/// How long a watch may stay open and idle after its timeout.
const WATCH_GRACE: Duration = Duration::from_secs(30);

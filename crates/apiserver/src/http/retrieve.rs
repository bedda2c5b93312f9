//! Handles get, list and watch.

use std::sync::Arc;
use std::time::Duration;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::options::ListOptions;
use pintle_apimachinery::request::path::ResourcePath;
use pintle_kinds::{Kind, RequestTarget};
use pintle_meta::FieldSelector;

use super::call::Call;
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::websocket;
use crate::faults::View;
use crate::registry::{Registry, Selection, VERSION_TIMEOUT, is_uncached, parse_number};
use crate::watch::{FrameShape, Watcher};

pub(super) async fn get(registry: &Arc<Registry>, call: &Call, target: &RequestTarget) -> Outcome<Reply> {
    let kind = &target.kind;
    let format = negotiate::negotiate(&call.head, Offer::Object, kind)?;
    if matches!(call.head.query.first("export"), Some("true" | "1")) {
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Failure::bad_request(why));
    }
    let version = call.head.query.text("resourceVersion");
    if !version.is_empty() {
        let version = parse_number(version).map_err(|error| {
            let why = &error.status.message;
            let message = format!("resourceVersion: Invalid value: {version:?}: {why}");
            if is_uncached(kind) {
                Failure::bad_request(format!("invalid resource version: {message}"))
            } else {
                Failure::plain(500, message)
            }
        })?;
        wait_for(registry, kind, version, call.view).await?;
    }
    let object = registry.get_in(target, call.view).await?;
    Ok(Reply::Object { code: 200, kind: kind.clone(), object, format })
}

pub(super) async fn list(
    registry: &Arc<Registry>,
    call: &Call,
    target: &RequestTarget,
    path: &ResourcePath,
) -> Outcome<Reply> {
    let kind = &target.kind;
    let format = negotiate::negotiate(&call.head, Offer::List, kind)?;
    let options = list_options(call, path, false)?;
    let selection = Selection::parse(target, &options)?;
    options.check()?;
    let selection = selection.checked()?;
    if let Some(version) = registry.version_to_wait_for(&options)? {
        wait_for(registry, kind, version, call.view).await?;
    }
    let list = loop {
        let list = registry.list(&selection, &options, call.view).await?;
        // List again after conversions, because a selector can read fields that a webhook must convert.
        if !registry.settle(&call.requester).await? {
            break list;
        }
    };
    Ok(Reply::List { kind: kind.clone(), list, format })
}

pub(super) fn watch(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: &RequestTarget,
    path: &ResourcePath,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(&call.head, Offer::Watch, &target.kind)?;
    let mut options = list_options(call, path, true)?;
    let target = if target.name.is_empty() {
        target.clone()
    } else {
        let by_name = FieldSelector::everything().equals("metadata.name", &target.name).to_string();
        let named: FieldSelector = options.field_selector.parse().unwrap_or_default();
        if named.exact("metadata.name").is_some_and(|name| name != target.name) {
            return Err(Failure::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        options.field_selector = match options.field_selector.as_str() {
            "" => by_name,
            others => format!("{others},{by_name}"),
        };
        RequestTarget { name: String::new(), ..target.clone() }
    };
    let selection = Selection::parse(&target, &options)?;
    options.check()?;
    let selection = selection.checked()?;
    format.transform.check(call.head.query.text("includeObject"))?;
    let shape = FrameShape::new(format.transform, format.media, registry.clock.clone());
    let faults = registry.faults.watch(&super::fault_request(call));
    let conversions = target.kind.strategy.conversion().and(Some(call.requester.clone()));
    let conversions = conversions.filter(|requester| requester.webhooks().is_some());
    let watcher = Watcher::start(registry.clone(), selection, &options, shape, faults, conversions)?;
    Ok(websocket::reply(call, Box::new(watcher)))
}

/// Parses the options of a list or watch. A request to a `/watch` path is always a watch, even with `watch=false`.
fn list_options(call: &Call, path: &ResourcePath, watch: bool) -> Outcome<ListOptions> {
    let mut options = ListOptions::parse(&call.head.query)?;
    options.watch = watch || path.old_watch;
    Ok(options)
}

/// Waits until the store reaches the revision `version`. Returns a failure if the store does not reach the revision
/// before a timeout. For a view with a fixed revision, the wait for a later revision always times out.
pub(super) async fn wait_for(registry: &Registry, kind: &Kind, version: u64, view: Option<View>) -> Outcome<()> {
    let uncached = is_uncached(kind);
    let patience = if uncached { Duration::ZERO } else { VERSION_TIMEOUT };
    let reached = match view {
        Some(View::At(stale)) if stale < version => {
            tokio::time::sleep(patience).await;
            stale
        }
        Some(View::Behind(lag)) => {
            let seen = registry.wait_until_visible(kind, version, lag);
            if tokio::time::timeout(patience, seen).await.is_ok() {
                return Ok(());
            }
            registry.view_revision(kind, View::Behind(lag))
        }
        _ if registry.db.revision() >= version || registry.db.wait_for(version, patience).await => return Ok(()),
        _ => registry.db.revision(),
    };
    Err(Failure::too_large_version(version, reached, u32::from(!uncached)))
}

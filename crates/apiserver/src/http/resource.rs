//! Requests for resources: the route, the verb, and the handler.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use pintle_meta::FieldSelector;

use super::body::Incoming;
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::{Call, stream, websocket, write};
use crate::failure::{Failure, Outcome};
use crate::faults::View;
use crate::kinds::{Kind, Origin, Place};
use crate::registry::{Registry, Selection, VERSION_PATIENCE, is_uncached, parse_number};
use crate::request::options::ListOptions;
use crate::request::path::ResourcePath;
use crate::request::{Part, Verb};
use crate::watch::{Shape, Watcher};

/// Serves a request for a resource.
pub(super) async fn serve(
    registry: &Arc<Registry>,
    call: &mut Call,
    path: &ResourcePath,
    verb: Option<Verb>,
    incoming: Incoming,
) -> Outcome<Reply> {
    let place = route(registry, call, path)?;
    call.warnings.extend(place.kind.strategy.deprecation().map(Into::into));
    if streams_of(&place.kind, place.part).is_some() {
        return stream::serve(registry, call, &place);
    }
    match (verb, place.part) {
        (Some(Verb::Get), Part::Object) => get(registry, call, &place).await,
        (Some(Verb::List), Part::Object) => list(registry, call, &place, path).await,
        (Some(Verb::Watch), Part::Object) => watch(registry, call, &place, path),
        _ => write::serve(registry, call, place, verb, incoming).await,
    }
}

/// Finds out what the path means, and whether the method can be used on it.
fn route(registry: &Registry, call: &Call, path: &ResourcePath) -> Outcome<Place> {
    let kinds = registry.kinds();
    let Some(kind) = kinds.resource(&path.group, &path.version, &path.resource) else {
        if let Some(unavailable) = registry.unavailable(&path.group, &path.version) {
            return Err(unavailable);
        }
        return Err(match kinds.group(&path.group) {
            Some(Origin::BuiltIn) => Failure::no_such_resource(),
            _ => Failure::page_not_found(),
        });
    };
    let absent = || if kind.is_custom() { Failure::page_not_found() } else { Failure::no_such_resource() };
    let is_namespace = path.is_namespace();
    if path.in_namespace != (kind.namespaced() && !path.namespace.is_empty()) {
        return Err(absent());
    }
    if path.name.is_empty() && !path.subresource.is_empty() {
        return Err(absent());
    }
    let (method, collection) = (&call.method, path.name.is_empty());
    let across = kind.namespaced() && path.namespace.is_empty();
    if across && !(collection && matches!(*method, Method::GET | Method::HEAD)) {
        let create_only = kind.verbs.iter().all(|verb| *verb == Verb::Create);
        let wrong_method = !kind.is_custom() && collection && !create_only;
        return Err(if wrong_method { Failure::method_not_allowed() } else { absent() });
    }
    if path.old_watch && *method != Method::GET {
        return Err(Failure::method_not_allowed());
    }
    let part = check_method(call, path, kind)?;
    let place = Place {
        kind: kind.clone(),
        namespace: if is_namespace { String::new() } else { path.namespace.clone() },
        name: path.name.clone(),
        part,
    };
    if matches!(place.name.as_str(), "." | "..") {
        let name = &place.name;
        return Err(Failure::bad_request(format!("Name parameter invalid: {name:?}: may not be '{name}'")));
    }
    Ok(place)
}

/// What only a kubelet can serve of a pod, and the methods for it. Other methods are refused as any server refuses them.
const STREAMS: [(Part, &[&str]); 4] = [
    (Part::Attach, &["GET", "POST"]),
    (Part::Exec, &["GET", "POST"]),
    (Part::Log, &["GET"]),
    (Part::PortForward, &["GET", "POST"]),
];

/// Whether answers of that path below an object go on for as long as somebody listens.
pub(super) fn is_stream(subresource: &str) -> bool {
    let part = Part::parse(subresource);
    part.is_some_and(|part| part == Part::Proxy || STREAMS.iter().any(|(stream, _)| *stream == part))
}

/// The methods for a part of a pod that only a kubelet can serve.
fn streams_of(kind: &Kind, part: Part) -> Option<&'static [&'static str]> {
    let is_pod = kind.group.is_empty() && kind.kind == "Pod";
    STREAMS.iter().find(|(stream, _)| *stream == part && is_pod).map(|(_, methods)| *methods)
}

/// The part that the path names, if the method can be used on it.
fn check_method(call: &Call, path: &ResourcePath, kind: &Arc<Kind>) -> Outcome<Part> {
    let absent = || match kind.is_custom() {
        true => Failure::not_found(&kind.resource(), &path.name),
        false => Failure::no_such_resource(),
    };
    let part = Part::parse(&path.subresource).ok_or_else(absent)?;
    let verbs = match part {
        Part::Object => &kind.verbs,
        part => match (kind.subresource(part), streams_of(kind, part)) {
            (Some(subresource), _) => &subresource.verbs,
            (None, Some(methods)) if methods.contains(&call.method.as_str()) => return Ok(part),
            (None, Some(_)) => return Err(Failure::method_not_allowed()),
            (None, None) => return Err(absent()),
        },
    };
    if !path.rest.is_empty() && !kind.is_custom() {
        return Err(Failure::no_such_resource());
    }
    let collection = path.name.is_empty();
    let wanted = match (call.method.as_str(), collection) {
        ("HEAD", _) if kind.is_custom() => Some(Verb::Get),
        ("GET", true) => Some(Verb::List),
        ("POST", true) => Some(Verb::Create),
        ("DELETE", true) => Some(Verb::DeleteCollection),
        ("GET", false) => Some(Verb::Get),
        ("PUT", false) => Some(Verb::Update),
        ("PATCH", false) => Some(Verb::Patch),
        ("DELETE", false) if part == Part::Object => Some(Verb::Delete),
        // Of custom resources, what the path names does not count for a POST.
        ("POST", false) if part != Part::Object || kind.is_custom() => Some(Verb::Create),
        _ => None,
    };
    if wanted.is_some_and(|verb| verbs.contains(&verb)) {
        return Ok(part);
    }
    if !collection && part == Part::Object && *verbs == [Verb::Create] {
        return Err(Failure::no_such_resource());
    }
    if kind.is_custom() && collection && matches!(call.method, Method::PUT | Method::PATCH) {
        return Err(Failure::bad_request("name must be provided"));
    }
    if !kind.is_custom() {
        return Err(Failure::method_not_allowed());
    }
    let word = match call.method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    };
    let resource = kind.resource();
    let message = format!("{word} is not supported on resources of kind \"{resource}\"");
    let details = crate::failure::details(&resource.group, &resource.resource, "");
    Err(Failure::new(405, pintle_meta::Reason::MethodNotAllowed, message).with(details))
}

async fn get(registry: &Arc<Registry>, call: &Call, place: &Place) -> Outcome<Reply> {
    let kind = &place.kind;
    let format = negotiate::negotiate(call, Offer::Object, kind.origin())?;
    if matches!(call.query.first("export"), Some("true" | "1")) {
        let why = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Failure::bad_request(why));
    }
    let version = call.query.text("resourceVersion");
    if !version.is_empty() {
        let version = parse_number(version).map_err(|error| {
            let why = &error.status.message;
            let message = format!("resourceVersion: Invalid value: {version:?}: {why}");
            match is_uncached(kind) {
                true => Failure::bad_request(format!("invalid resource version: {message}")),
                false => Failure::plain(500, message),
            }
        })?;
        wait_for(registry, kind, version, call.view).await?;
    }
    let object = registry.get_in(place, call.view)?;
    Ok(Reply::Object { code: 200, kind: kind.clone(), object, format })
}

async fn list(registry: &Arc<Registry>, call: &Call, place: &Place, path: &ResourcePath) -> Outcome<Reply> {
    let kind = &place.kind;
    let format = negotiate::negotiate(call, Offer::List, kind.origin())?;
    let options = list_options(call, path, false)?;
    let selection = Selection::parse(place, &options)?;
    options.check()?;
    let selection = selection.checked()?;
    if let Some(version) = registry.version_to_wait_for(&options)? {
        wait_for(registry, kind, version, call.view).await?;
    }
    let list = registry.list(&selection, &options, call.view).await?;
    Ok(Reply::List { kind: kind.clone(), list, format })
}

fn watch(registry: &Arc<Registry>, call: &mut Call, place: &Place, path: &ResourcePath) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Watch, place.kind.origin())?;
    let mut options = list_options(call, path, true)?;
    let place = match place.name.is_empty() {
        true => place.clone(),
        false => {
            let by_name = FieldSelector::everything().equals("metadata.name", &place.name).to_string();
            let named: FieldSelector = options.field_selector.parse().unwrap_or_default();
            if named.exact("metadata.name").is_some_and(|name| name != place.name) {
                let why = format!("the name in the path ({}) does not match the field selector", place.name);
                return Err(Failure::bad_request(why));
            }
            options.field_selector = match options.field_selector.as_str() {
                "" => by_name,
                others => format!("{others},{by_name}"),
            };
            Place { name: String::new(), ..place.clone() }
        }
    };
    let selection = Selection::parse(&place, &options)?;
    options.check()?;
    let selection = selection.checked()?;
    format.transform.check(call.query.text("includeObject"))?;
    let shape = Shape::new(format.transform, format.media, registry.clock.clone());
    let faults = registry.faults.watch(&super::fault_request(call));
    let watcher = Watcher::start(registry.clone(), selection, &options, shape, faults)?;
    Ok(websocket::reply(call, Box::new(watcher)))
}

/// The options of a list or a watch; the old spelling of a watch is one whatever `watch` says.
fn list_options(call: &Call, path: &ResourcePath, watch: bool) -> Outcome<ListOptions> {
    let mut options = ListOptions::parse(&call.query)?;
    options.watch = watch || path.old_watch;
    Ok(options)
}

/// Waits for a revision that is yet to come; fails if it does not come in time. To a stale view it does not.
pub(super) async fn wait_for(registry: &Registry, kind: &Kind, version: u64, view: Option<View>) -> Outcome<()> {
    let uncached = is_uncached(kind);
    let patience = if uncached { Duration::ZERO } else { VERSION_PATIENCE };
    let reached = match view {
        Some(View::At(stale)) if stale < version => {
            tokio::time::sleep(patience).await;
            stale
        }
        Some(View::Behind(lag)) => {
            let seen = registry.until_seen(kind, version, lag);
            if tokio::time::timeout(patience, seen).await.is_ok() {
                return Ok(());
            }
            registry.seen(kind, View::Behind(lag))
        }
        _ if registry.db.revision() >= version || registry.db.wait_for(version, patience).await => return Ok(()),
        _ => registry.db.revision(),
    };
    Err(Failure::too_large_version(version, reached, u32::from(!uncached)))
}

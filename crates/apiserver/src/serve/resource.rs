//! Requests for resources: the route, the verb, and the handler.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use pintle_meta::FieldSelector;

use super::body::Incoming;
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::{Call, stream, websocket, write};
use crate::api::{Api, VERSION_PATIENCE};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Origin};
use crate::request::options::ListOptions;
use crate::request::path::ResourcePath;
use crate::rest::{Place, Selection, is_uncached, parse_number};
use crate::watch::{Shape, Watcher};

/// Serves a request for a resource.
pub(super) async fn serve(
    api: &Arc<Api>,
    call: &mut Call,
    path: &ResourcePath,
    verb: &str,
    incoming: Incoming,
) -> Outcome<Reply> {
    let place = route(api, call, path)?;
    call.warnings.extend(place.kind.strategy.deprecation().map(Into::into));
    if is_stream_of_pod(&place.kind, place.subresource.as_deref().unwrap_or_default()) {
        return stream::serve(api, call, &place);
    }
    match (verb, place.subresource.is_some()) {
        ("get", false) => get(api, call, &place).await,
        ("list", false) => list(api, call, &place, path).await,
        ("watch", false) => watch(api, call, &place, path),
        _ => write::serve(api, call, place, verb, incoming).await,
    }
}

/// Finds out what the path means, and whether the method can be used on it.
fn route(api: &Api, call: &Call, path: &ResourcePath) -> Outcome<Place> {
    let kinds = api.kinds();
    let Some(kind) = kinds.resource(&path.group, &path.version, &path.resource) else {
        return Err(match kinds.group(&path.group) {
            Some(Origin::BuiltIn) => Failure::no_such_resource(),
            _ => Failure::page_not_found(),
        });
    };
    let absent = || if kind.custom { Failure::page_not_found() } else { Failure::no_such_resource() };
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
        let create_only = kind.verbs.iter().all(|verb| verb == "create");
        let wrong_method = !kind.custom && collection && !create_only;
        return Err(if wrong_method { Failure::method_not_allowed() } else { absent() });
    }
    if path.old_watch && *method != Method::GET {
        return Err(Failure::method_not_allowed());
    }
    let subresource = (!path.subresource.is_empty()).then(|| path.subresource.clone());
    let place = Place {
        kind: kind.clone(),
        namespace: if is_namespace { String::new() } else { path.namespace.clone() },
        name: path.name.clone(),
        subresource,
    };
    check_method(call, path, kind)?;
    if matches!(place.name.as_str(), "." | "..") {
        let name = &place.name;
        return Err(Failure::bad_request(format!("Name parameter invalid: {name:?}: may not be '{name}'")));
    }
    Ok(place)
}

/// What only a kubelet can serve of a pod, and the methods for it. Other methods are refused as any server refuses them.
const STREAMS: [(&str, &[&str]); 4] =
    [("attach", &["GET", "POST"]), ("exec", &["GET", "POST"]), ("log", &["GET"]), ("portforward", &["GET", "POST"])];

/// Whether answers of that path below an object go on for as long as somebody listens.
pub(super) fn is_stream(subresource: &str) -> bool {
    subresource == "proxy" || STREAMS.iter().any(|(stream, _)| *stream == subresource)
}

fn is_stream_of_pod(kind: &Kind, subresource: &str) -> bool {
    let is_pod = kind.group.is_empty() && kind.kind == "Pod";
    is_pod && STREAMS.iter().any(|(stream, _)| *stream == subresource)
}

fn check_method(call: &Call, path: &ResourcePath, kind: &Arc<Kind>) -> Outcome<()> {
    let verbs: Vec<&str> = match path.subresource.as_str() {
        "" => kind.verbs.iter().map(String::as_str).collect(),
        name => {
            let Some(subresource) = kind.subresource(name) else {
                let elsewhere = STREAMS.iter().find(|(stream, _)| *stream == name && is_stream_of_pod(kind, name));
                if let Some((_, methods)) = elsewhere {
                    let allowed = methods.contains(&call.method.as_str());
                    return if allowed { Ok(()) } else { Err(Failure::method_not_allowed()) };
                }
                return Err(match kind.custom {
                    true => Failure::not_found(&kind.resource(), &path.name),
                    false => Failure::no_such_resource(),
                });
            };
            subresource.verbs.iter().map(String::as_str).collect()
        }
    };
    if !path.rest.is_empty() && !kind.custom {
        return Err(Failure::no_such_resource());
    }
    let collection = path.name.is_empty();
    let wanted: &[&str] = match (call.method.as_str(), collection) {
        ("HEAD", _) if kind.custom => &["get"],
        ("GET", true) => &["list"],
        ("POST", true) => &["create"],
        ("DELETE", true) => &["deletecollection"],
        ("GET", false) => &["get"],
        ("PUT", false) => &["update"],
        ("PATCH", false) => &["patch"],
        ("DELETE", false) if path.subresource.is_empty() => &["delete"],
        // Of custom resources, what the path names does not count for a POST.
        ("POST", false) if !path.subresource.is_empty() || kind.custom => &["create"],
        _ => &[],
    };
    if verbs.iter().any(|verb| wanted.contains(verb)) {
        return Ok(());
    }
    if !collection && path.subresource.is_empty() && verbs == ["create"] {
        return Err(Failure::no_such_resource());
    }
    if kind.custom && collection && matches!(call.method, Method::PUT | Method::PATCH) {
        return Err(Failure::bad_request("name must be provided"));
    }
    if !kind.custom {
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

async fn get(api: &Arc<Api>, call: &Call, place: &Place) -> Outcome<Reply> {
    let kind = &place.kind;
    let format = negotiate::negotiate(call, Offer::Object, kind.custom)?;
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
        wait_for(api, kind, version, call.stale).await?;
    }
    let object = api.get_in(place, call.stale)?;
    Ok(Reply::Object { code: 200, kind: kind.clone(), object, format })
}

async fn list(api: &Arc<Api>, call: &Call, place: &Place, path: &ResourcePath) -> Outcome<Reply> {
    let kind = &place.kind;
    let format = negotiate::negotiate(call, Offer::List, kind.custom)?;
    let options = list_options(call, path, false)?;
    let selection = Selection::parse(place, &options)?;
    options.check()?;
    let selection = selection.checked()?;
    if let Some(version) = api.version_to_wait_for(&options)? {
        wait_for(api, kind, version, call.stale).await?;
    }
    let list = api.list(&selection, &options, call.stale)?;
    Ok(Reply::List { kind: kind.clone(), list, format })
}

fn watch(api: &Arc<Api>, call: &mut Call, place: &Place, path: &ResourcePath) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Watch, place.kind.custom)?;
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
    let shape = Shape::new(format.transform, api.clock.clone());
    let watcher = Watcher::start(api.clone(), selection, &options, shape, call.user_agent())?;
    Ok(websocket::reply(call, Box::new(watcher)))
}

/// The options of a list or a watch; the old spelling of a watch is one whatever `watch` says.
fn list_options(call: &Call, path: &ResourcePath, watch: bool) -> Outcome<ListOptions> {
    let mut options = ListOptions::parse(&call.query)?;
    options.watch = watch || path.old_watch;
    Ok(options)
}

/// Waits for a revision that is yet to come; fails if it does not come in time. To a stale view it does not.
pub(super) async fn wait_for(api: &Api, kind: &Kind, version: u64, stale: Option<u64>) -> Outcome<()> {
    let uncached = is_uncached(kind);
    let patience = if uncached { Duration::ZERO } else { VERSION_PATIENCE };
    let reached = match stale {
        Some(stale) if stale < version => {
            tokio::time::sleep(patience).await;
            stale
        }
        _ if api.db.revision() >= version || api.db.wait_for(version, patience).await => return Ok(()),
        _ => api.db.revision(),
    };
    Err(Failure::too_large_version(version, reached, u32::from(!uncached)))
}

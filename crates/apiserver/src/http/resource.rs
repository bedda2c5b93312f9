//! Routes resource requests to their handlers.

use std::sync::Arc;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderValue, Method};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_authz::{Attributes, Decision};
use pintle_kinds::{Kind, RequestTarget, Routing, StreamAnswer};
use pintle_meta::Reason;
use pintle_serving::offload;

use super::body::RequestBody;
use super::call::Call;
use super::encode::Reply;
use super::{retrieve, subresource, write};
use crate::registry::Registry;

pub(super) async fn serve(
    registry: &Arc<Registry>,
    call: &mut Call,
    path: &ResourcePath,
    verb: Option<Verb>,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let mut target = route(registry, call, path)?;
    match registry.with_conversions(&target.kind, &call.requester) {
        Ok(kind) => target.kind = kind,
        Err(warning) => call.warnings.push(warning),
    }
    call.warnings.extend(target.kind.strategy.deprecation().map(Into::into));
    call.costs.validation = target.kind.strategy.schema_weight();
    // A CONNECT request, such as `exec`, can have the method GET, but admission webhooks treat it like a POST request.
    let connects = target.kind.strategy.stream(target.subresource).is_some_and(|stream| stream.connects);
    if connects || !matches!(verb, Some(Verb::Get | Verb::List | Verb::Watch)) {
        call.costs.stored = registry.weight(&target);
        call.prepare_admission(registry);
    }
    if target.subresource != Subresource::None
        && (verb == Some(Verb::Get) || target.kind.strategy.stream(target.subresource).is_some())
    {
        // Most subresources are computed from the decoded object, and decoding a large object is expensive. The
        // response to a proxy request also depends on objects other than the requested object.
        let weight = registry.weight(&target).max(call.costs.validation);
        offload::work_on(if target.subresource == Subresource::Proxy { offload::ALWAYS } else { weight }).await;
    }
    if let Some(stream) = target.kind.strategy.stream(target.subresource) {
        let mut options = (stream.options)(&call.head.query, &path.rest)?;
        if stream.connects {
            let connect = || {
                let mut admitted = options.clone();
                registry.connect(&target, &mut admitted, &call.requester).map(|()| admitted)
            };
            options = registry.with_webhooks(&call.requester, connect).await?;
            // A connection request has the method GET, but requires the same permissions as a POST request.
            let create = Attributes::Resource { verb: Verb::Create.name(), path, name: &target.name };
            if let Decision::NoOpinion(error) = pintle_authz::decide(registry.rbac(), &call.requester.user, &create) {
                return Err(Failure::forbidden(&target.kind.resource(), &target.name, &error.unwrap_or_default()));
            }
        }
        return match (stream.answer)(&*registry.db, &target, &options)? {
            StreamAnswer::Empty => Ok(Reply::Raw { code: 204, headers: Default::default(), body: Bytes::new() }),
            StreamAnswer::Unreachable(why) => no_backend(call, path, &why),
        };
    }
    match (verb, target.subresource) {
        (Some(Verb::Get), Subresource::None) => retrieve::get(registry, call, &target).await,
        (Some(Verb::List), Subresource::None) => retrieve::list(registry, call, &target, path).await,
        (Some(Verb::Watch), Subresource::None) => retrieve::watch(registry, call, &target, path),
        (Some(verb), Subresource::Scale) => subresource::scale(registry, call, target, verb, request_body).await,
        (Some(Verb::Create), subresource) => match target.kind.strategy.post_handler(subresource) {
            Some(post_handler) => subresource::post(registry, call, &target, post_handler, request_body).await,
            None if subresource == Subresource::None => write::create(registry, call, target, request_body).await,
            None => Err(Failure::method_not_allowed()),
        },
        (Some(Verb::Update), _) => write::update(registry, call, target, request_body).await,
        (Some(Verb::Patch), _) => write::patch(registry, call, target, request_body).await,
        (Some(Verb::Delete), _) => write::delete(registry, call, target, request_body).await,
        (Some(Verb::DeleteCollection), _) => write::delete_collection(registry, call, target, request_body).await,
        (Some(Verb::Get), _) => subresource::get(registry, call, &target),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Responds to a proxy request with an error, because there are no backends. The response is a redirect if the path is
/// the backend's root without a trailing slash.
fn no_backend(call: &Call, path: &ResourcePath, why: &str) -> Outcome<Reply> {
    let is_root = path.rest.is_empty() && !call.head.uri.path().ends_with('/');
    if is_root && matches!(call.head.method, Method::GET | Method::HEAD) {
        let query = call.head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let location = HeaderValue::try_from(format!("{}/{query}", call.head.uri.path()));
        let headers = location.into_iter().map(|location| (LOCATION, location)).collect();
        return Ok(Reply::Raw { code: 301, headers, body: Bytes::new() });
    }
    Err(Failure::new(503, Reason::ServiceUnavailable, format!("error trying to reach service: {why}")))
}

fn route(registry: &Registry, call: &Call, path: &ResourcePath) -> Outcome<RequestTarget> {
    let kinds = registry.kinds();
    let Some(kind) = kinds.resource(&path.group, &path.version, &path.resource) else {
        if let Some(unavailable) = registry.unavailable(&path.group, &path.version) {
            return Err(unavailable);
        }
        return Err(match kinds.routing(&path.group) {
            Some(Routing::PerMethod) => Failure::no_such_resource(),
            _ => Failure::page_not_found(),
        });
    };
    let has_routes = kind.strategy.routing() == Routing::PerMethod;
    let absent = || if has_routes { Failure::no_such_resource() } else { Failure::page_not_found() };
    // If the kind has a separate route for each method, a `/watch` path exists only for resources that can be watched.
    let is_watched = path.subresource.is_empty() && kind.verbs.contains(&Verb::Watch);
    if has_routes && (path.old_proxy || (path.old_watch && !is_watched)) {
        return Err(absent());
    }
    if path.in_namespace != (kind.is_namespaced() && !path.namespace.is_empty()) {
        return Err(absent());
    }
    if path.name.is_empty() && !path.subresource.is_empty() {
        return Err(absent());
    }
    let (method, collection) = (&call.head.method, path.name.is_empty());
    let across = kind.is_namespaced() && path.namespace.is_empty();
    // If the kind has one route for all methods, every request to a `/watch` path is a watch.
    let is_watch = path.old_watch && !has_routes;
    let may_list = !path.old_proxy && (is_watch || matches!(*method, Method::GET | Method::HEAD));
    if across && !(collection && may_list) {
        let create_only = kind.verbs.iter().all(|verb| *verb == Verb::Create);
        let wrong_method = has_routes && collection && !create_only;
        return Err(if wrong_method { Failure::method_not_allowed() } else { absent() });
    }
    if path.old_watch && has_routes && *method != Method::GET {
        return Err(Failure::method_not_allowed());
    }
    if path.old_proxy {
        return Err(unsupported(kind, "proxy"));
    }
    let subresource = check_method(call, path, kind)?;
    let target = RequestTarget {
        kind: kind.clone(),
        // Namespaces are cluster-scoped. In the path of a Namespace, `path.namespace` is the name of the Namespace.
        namespace: if kind.is_namespaced() { path.namespace.clone() } else { String::new() },
        name: path.name.clone(),
        subresource,
    };
    if matches!(target.name.as_str(), "." | "..") {
        let name = &target.name;
        return Err(Failure::bad_request(format!("Name parameter invalid: {name:?}: may not be '{name}'")));
    }
    Ok(target)
}

fn check_method(call: &Call, path: &ResourcePath, kind: &Arc<Kind>) -> Outcome<Subresource> {
    let has_routes = kind.strategy.routing() == Routing::PerMethod;
    let absent =
        || if has_routes { Failure::no_such_resource() } else { Failure::not_found(&kind.resource(), &path.name) };
    let subresource = Subresource::parse(&path.subresource).ok_or_else(absent)?;
    let verbs = match subresource {
        Subresource::None => &kind.verbs,
        subresource => match (kind.subresource(subresource), kind.strategy.stream(subresource)) {
            (Some(subresource), _) => &subresource.verbs,
            (None, Some(stream)) if !path.rest.is_empty() && !stream.has_subpaths => return Err(absent()),
            (None, Some(stream)) if stream.methods.contains(&call.head.method.as_str()) => return Ok(subresource),
            (None, Some(_)) => return Err(Failure::method_not_allowed()),
            (None, None) => return Err(absent()),
        },
    };
    if !path.rest.is_empty() && has_routes {
        return Err(Failure::no_such_resource());
    }
    let collection = path.name.is_empty();
    let wanted = match (call.head.method.as_str(), collection) {
        _ if path.old_watch => Some(Verb::Watch),
        ("GET", _) if call.info.verb == Some(Verb::Watch) => Some(Verb::Watch),
        ("HEAD", _) if !has_routes => Some(Verb::Get),
        ("GET", true) => Some(Verb::List),
        ("POST", true) => Some(Verb::Create),
        ("DELETE", true) => Some(Verb::DeleteCollection),
        ("GET", false) => Some(Verb::Get),
        ("PUT", false) => Some(Verb::Update),
        ("PATCH", false) => Some(Verb::Patch),
        ("DELETE", false) if subresource == Subresource::None => Some(Verb::Delete),
        // If the kind has one route for all methods, a POST request ignores the name in the path.
        ("POST", false) if subresource != Subresource::None || !has_routes => Some(Verb::Create),
        _ => None,
    };
    if wanted.is_some_and(|verb| verbs.contains(&verb)) {
        return Ok(subresource);
    }
    if !collection && subresource == Subresource::None && *verbs == [Verb::Create] {
        return Err(Failure::no_such_resource());
    }
    if !has_routes && collection && matches!(call.head.method, Method::PUT | Method::PATCH) {
        return Err(Failure::bad_request("name must be provided"));
    }
    // A resource that supports lists also has a route for watches. If the resource does not support watches, the list
    // handler rejects the watch.
    let is_listed = wanted == Some(Verb::Watch) && verbs.contains(&Verb::List);
    if has_routes && !is_listed {
        return Err(Failure::method_not_allowed());
    }
    let word = match call.head.method.as_str() {
        _ if wanted == Some(Verb::Watch) => "watch",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    };
    Err(unsupported(kind, word))
}

/// Returns the 405 failure of a handler that does not support the request's method. If the route itself is missing, the
/// server returns a different message.
fn unsupported(kind: &Kind, verb: &str) -> Failure {
    let resource = kind.resource();
    let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
    let details = pintle_apimachinery::failure::details(&resource.group, &resource.resource, "");
    Failure::new(405, Reason::MethodNotAllowed, message).with(details)
}

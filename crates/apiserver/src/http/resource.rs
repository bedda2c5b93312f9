//! Requests for resources: the route, the verb, and who serves it.

use std::sync::Arc;

use http::Method;

use super::body::Delivery;
use super::encode::Reply;
use super::{Call, retrieve, subresource, write};
use crate::auth::{self, Attributes, Decision};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Place, Routing};
use crate::registry::Registry;
use crate::request::path::ResourcePath;
use crate::request::{Part, Verb};

/// Serves a request for a resource.
pub(super) async fn serve(
    registry: &Arc<Registry>,
    call: &mut Call,
    path: &ResourcePath,
    verb: Option<Verb>,
    delivery: Delivery,
) -> Outcome<Reply> {
    let place = route(registry, call, path)?;
    call.warnings.extend(place.kind.strategy.deprecation().map(Into::into));
    if !matches!(verb, Some(Verb::Get | Verb::List | Verb::Watch)) {
        call.weight = registry.weight(&place);
    }
    call.schema_weight = place.kind.strategy.schema_weight();
    if let Some(stream) = place.kind.strategy.stream(place.part) {
        let mut options = (stream.options)(&call.query)?;
        if stream.connects {
            registry.connect(&place, &mut options, &call.asker)?;
            // A WebSocket begins as a GET, and does no less than a POST.
            let create = Attributes::Resource { verb: Verb::Create.name(), path, name: &place.name };
            if let Decision::NoOpinion(wrong) = auth::decide(registry.rbac(), &call.asker.user, &create) {
                return Err(Failure::forbidden(&place.kind.resource(), &place.name, &wrong.unwrap_or_default()));
            }
        }
        let object = registry.get(&Place { part: Part::Object, ..place.clone() })?.tree();
        let text = (stream.answer)(&registry.db, &place, &object, &options)?;
        return Ok(Reply::text(200, text));
    }
    match (verb, place.part) {
        (Some(Verb::Get), Part::Object) => retrieve::get(registry, call, &place).await,
        (Some(Verb::List), Part::Object) => retrieve::list(registry, call, &place, path).await,
        (Some(Verb::Watch), Part::Object) => retrieve::watch(registry, call, &place, path),
        (Some(verb), Part::Scale) => subresource::scale(registry, call, place, verb, delivery).await,
        (Some(Verb::Create), part) => match place.kind.strategy.posting(part) {
            Some(posting) => subresource::post(registry, call, &place, posting, delivery).await,
            None if part == Part::Object => write::create(registry, call, place, delivery).await,
            None => Err(Failure::method_not_allowed()),
        },
        (Some(Verb::Update), _) => write::update(registry, call, place, delivery).await,
        (Some(Verb::Patch), _) => write::patch(registry, call, place, delivery).await,
        (Some(Verb::Delete), _) => write::delete(registry, call, place, delivery).await,
        (Some(Verb::DeleteCollection), _) => write::delete_collection(registry, call, place, delivery).await,
        (Some(Verb::Get), _) => subresource::get(registry, call, &place),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Finds out what the path means, and whether the method can be used on it.
fn route(registry: &Registry, call: &Call, path: &ResourcePath) -> Outcome<Place> {
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
    let absent = || match kind.strategy.routing() {
        Routing::PerMethod => Failure::no_such_resource(),
        Routing::CatchAll => Failure::page_not_found(),
    };
    // The old spelling of a watch is a route of its own, where there are any.
    let is_watched = path.subresource.is_empty() && kind.verbs.contains(&Verb::Watch);
    if path.old_watch && !is_watched && kind.strategy.routing() == Routing::PerMethod {
        return Err(absent());
    }
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
        let wrong_method = kind.strategy.routing() == Routing::PerMethod && collection && !create_only;
        return Err(if wrong_method { Failure::method_not_allowed() } else { absent() });
    }
    if path.old_watch && path.subresource.is_empty() && *method != Method::GET {
        return Err(Failure::method_not_allowed());
    }
    let part = check_method(call, path, kind)?;
    let place = Place {
        kind: kind.clone(),
        // A namespace's own path names one, in which it is not.
        namespace: if kind.namespaced() { path.namespace.clone() } else { String::new() },
        name: path.name.clone(),
        part,
    };
    if matches!(place.name.as_str(), "." | "..") {
        let name = &place.name;
        return Err(Failure::bad_request(format!("Name parameter invalid: {name:?}: may not be '{name}'")));
    }
    Ok(place)
}

/// The part that the path names, if the method can be used on it.
fn check_method(call: &Call, path: &ResourcePath, kind: &Arc<Kind>) -> Outcome<Part> {
    let has_routes = kind.strategy.routing() == Routing::PerMethod;
    let absent = || match has_routes {
        true => Failure::no_such_resource(),
        false => Failure::not_found(&kind.resource(), &path.name),
    };
    let part = Part::parse(&path.subresource).ok_or_else(absent)?;
    let verbs = match part {
        Part::Object => &kind.verbs,
        part => match (kind.subresource(part), kind.strategy.stream(part)) {
            (Some(subresource), _) => &subresource.verbs,
            (None, Some(stream)) if stream.methods.contains(&call.method.as_str()) => return Ok(part),
            (None, Some(_)) => return Err(Failure::method_not_allowed()),
            (None, None) => return Err(absent()),
        },
    };
    if !path.rest.is_empty() && has_routes {
        return Err(Failure::no_such_resource());
    }
    let collection = path.name.is_empty();
    let wanted = match (call.method.as_str(), collection) {
        _ if path.old_watch => Some(Verb::Watch),
        ("GET", _) if call.verb == Some(Verb::Watch) => Some(Verb::Watch),
        ("HEAD", _) if !has_routes => Some(Verb::Get),
        ("GET", true) => Some(Verb::List),
        ("POST", true) => Some(Verb::Create),
        ("DELETE", true) => Some(Verb::DeleteCollection),
        ("GET", false) => Some(Verb::Get),
        ("PUT", false) => Some(Verb::Update),
        ("PATCH", false) => Some(Verb::Patch),
        ("DELETE", false) if part == Part::Object => Some(Verb::Delete),
        // Where there are no routes, what the path names does not count for a POST.
        ("POST", false) if part != Part::Object || !has_routes => Some(Verb::Create),
        _ => None,
    };
    if wanted.is_some_and(|verb| verbs.contains(&verb)) {
        return Ok(part);
    }
    if !collection && part == Part::Object && *verbs == [Verb::Create] {
        return Err(Failure::no_such_resource());
    }
    if !has_routes && collection && matches!(call.method, Method::PUT | Method::PATCH) {
        return Err(Failure::bad_request("name must be provided"));
    }
    // Where a route serves the list, it is found out behind it.
    let is_listed = wanted == Some(Verb::Watch) && verbs.contains(&Verb::List);
    if has_routes && !is_listed {
        return Err(Failure::method_not_allowed());
    }
    let word = match call.method.as_str() {
        _ if wanted == Some(Verb::Watch) => "watch",
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

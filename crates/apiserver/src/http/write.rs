//! Requests that change something.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use pintle_json::Json;
use pintle_meta::{Reason, StatusDetails};

use super::body::{self, Incoming};
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::{Call, decode, resource, subresource};
use crate::auth::{self, Attributes};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Place};
use crate::registry::Writer;
use crate::registry::{Deleted, Registry, Selection, Wish, Written};
use crate::request::options::{DeleteOptions, How, ListOptions, WriteOptions};
use crate::request::path::ResourcePath;
use crate::request::{Part, Verb};

/// Serves a write, or a read of a subresource.
pub(super) async fn serve(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    verb: Option<Verb>,
    incoming: Incoming,
) -> Outcome<Reply> {
    let is_binding = place.kind.kind == "Binding" && place.kind.group.is_empty();
    match (verb, place.part) {
        (verb, Part::Scale) => return subresource::scale(registry, call, place, verb, incoming).await,
        (Some(Verb::Create), Part::Binding) => return subresource::bind(registry, call, place, incoming).await,
        (Some(Verb::Create), Part::Object) if is_binding => {
            return subresource::bind(registry, call, place, incoming).await;
        }
        (Some(Verb::Create), Part::Token) => return subresource::token(registry, call, place, incoming).await,
        (Some(Verb::Create), Part::Eviction) => return subresource::evict(registry, call, place, incoming).await,
        _ => (),
    }
    match verb {
        Some(Verb::Create) if place.part == Part::Object => create(registry, call, place, incoming).await,
        Some(Verb::Update) => update(registry, call, place, incoming).await,
        Some(Verb::Patch) => patch(registry, call, place, incoming).await,
        Some(Verb::Delete) => delete(registry, call, place, incoming).await,
        Some(Verb::DeleteCollection) => delete_collection(registry, call, place, incoming).await,
        Some(Verb::Get) => {
            let format = negotiate::negotiate(call, Offer::Object, place.kind.origin())?;
            let object = registry.get(&place)?;
            Ok(Reply::Object { code: 200, kind: place.kind.clone(), object, format })
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

async fn create(registry: &Arc<Registry>, call: &mut Call, place: Place, incoming: Incoming) -> Outcome<Reply> {
    let kind = place.kind.clone();
    let format = negotiate::negotiate(call, offer(&place), kind.origin())?;
    let body = read_object(call, incoming, &kind).await?;
    let options = WriteOptions::parse(&call.query, How::Post)?;
    let object = decoded(call, &place, &body, &options)?;
    let manager = manager(registry, call, &place, &options);
    if kind.conduct.transient {
        let object = registry.review(&place, object, &call.user, &manager)?;
        return Ok(Reply::Object { code: 201, kind, object, format });
    }
    let written = registry.create(&place, object, &manager)?;
    Ok(written_reply(call, kind, written, format))
}

async fn update(registry: &Arc<Registry>, call: &mut Call, place: Place, incoming: Incoming) -> Outcome<Reply> {
    let kind = place.kind.clone();
    let format = negotiate::negotiate(call, offer(&place), kind.origin())?;
    let body = read_object(call, incoming, &kind).await?;
    let options = WriteOptions::parse(&call.query, How::Put)?;
    let object = decoded(call, &place, &body, &options)?;
    let manager = manager(registry, call, &place, &options);
    let written = registry.update(&place, &Wish::Put(&object), &manager)?;
    Ok(written_reply(call, kind, written, format))
}

async fn patch(registry: &Arc<Registry>, call: &mut Call, place: Place, incoming: Incoming) -> Outcome<Reply> {
    let kind = place.kind.clone();
    let format = negotiate::negotiate(call, offer(&place), kind.origin())?;
    let patch_kind = patch_kind(call, &kind)?;
    let body = decode::RawBody::new(body::read(call, incoming).await?, patch_kind.body()).await?;
    let options = WriteOptions::parse(&call.query, patch_kind.how())?;
    let manager = manager(registry, call, &place, &options);
    let patcher = decode::Patcher::new(&kind, patch_kind, &body, &manager, place.part);
    let make = |live: Option<&Json>| patcher.make(live);
    let wish = match patch_kind.how() {
        How::Apply => Wish::Apply(&make),
        _ => Wish::Patch(&make),
    };
    let written = registry.update(&place, &wish, &manager);
    call.warnings.extend(patcher.warnings());
    let written = written?;
    Ok(written_reply(call, kind, written, format))
}

async fn delete(registry: &Arc<Registry>, call: &mut Call, place: Place, incoming: Incoming) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Object, place.kind.origin())?;
    let options = delete_options(call, &place, incoming).await?;
    warn_of_orphans(call, &place, &options);
    let kind = place.kind.clone();
    Ok(match registry.delete(&place, &options)? {
        // Who asks, in the old words, for the dependents to go too is told that the object itself waits.
        Deleted::Held(object) if options.orphan_dependents == Some(false) => {
            Reply::Object { code: 202, kind, object, format }
        }
        Deleted::Held(object) | Deleted::Object(object) => Reply::Object { code: 200, kind, object, format },
        Deleted::Gone(status) => Reply::Status { status, format },
    })
}

async fn delete_collection(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    incoming: Incoming,
) -> Outcome<Reply> {
    let kind = place.kind.clone();
    let format = negotiate::negotiate(call, Offer::List, kind.origin())?;
    let mut list = ListOptions::parse(&call.query)?;
    list.watch = false;
    let selection = Selection::parse(&place, &list)?;
    list.check()?;
    let selection = selection.checked()?;
    let options = delete_options(call, &place, incoming).await?;
    warn_of_orphans(call, &place, &options);
    if let Some(version) = registry.version_to_wait_for(&list)? {
        resource::wait_for(registry, &kind, version, None).await?;
    }
    let list = registry.delete_collection(&selection, &list, &options).await?;
    Ok(Reply::List { kind, list, format })
}

fn warn_of_orphans(call: &mut Call, place: &Place, options: &DeleteOptions) {
    if options.propagation.is_none() && options.orphan_dependents.is_none() {
        call.warnings.extend(place.kind.strategy.orphaning_warning().map(Into::into));
    }
}

/// The options of a DELETE: the body's, if there is one, else the query's.
async fn delete_options(call: &mut Call, place: &Place, incoming: Incoming) -> Outcome<DeleteOptions> {
    let content_type = call.header(CONTENT_TYPE).to_owned();
    let bytes = body::read(call, incoming).await?;
    if bytes.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    let media = decode::media(&content_type).ok_or_else(|| unsupported(&place.kind, false))?;
    let body = decode::RawBody::new(bytes, media).await?;
    let body = body
        .value(("v1", "DeleteOptions"))
        .map_err(|why| Failure::bad_request(format!("couldn't get version/kind; json parse error: {why}")))?;
    DeleteOptions::from_body(&body)
}

pub(super) async fn read_object(call: &Call, incoming: Incoming, kind: &Kind) -> Outcome<decode::RawBody> {
    let media = decode::media(call.header(CONTENT_TYPE)).ok_or_else(|| unsupported(kind, false))?;
    if kind.is_custom() && media == decode::BodyMedia::Protobuf {
        // A real server fails at these bodies: unless their fields are to be ignored, it says nothing at all.
        return Err(match call.query.text("fieldValidation") {
            "Ignore" => Failure::bad_request(format!(
                "{0} in version {1:?} cannot be handled as a {0}: Object 'Kind' is missing in 'object has no kind field '",
                kind.kind, kind.version
            )),
            _ => unsupported(kind, false),
        });
    }
    decode::RawBody::new(body::read(call, incoming).await?, media).await
}

fn decoded(call: &mut Call, place: &Place, body: &decode::RawBody, options: &WriteOptions) -> Outcome<Json> {
    let decoded = decode::object(&place.kind, body, options.field_validation)?;
    call.warnings.extend(decoded.warnings);
    let version = decoded.value["apiVersion"].as_str().unwrap_or_default();
    pintle_schema::check_version(version, &place.kind.api_version())
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    Ok(decoded.value)
}

pub(super) fn written_reply(call: &mut Call, kind: Arc<Kind>, written: Written, format: negotiate::Format) -> Reply {
    call.warnings.extend(written.warnings);
    let code = if written.created { 201 } else { 200 };
    Reply::Object { code, kind, object: written.object, format }
}

fn offer(place: &Place) -> Offer {
    if place.kind.conduct.transient { Offer::Transient } else { Offer::Object }
}

/// 415. Built-in kinds refuse a patch without naming what they take.
fn unsupported(kind: &Kind, patch: bool) -> Failure {
    if patch && !kind.is_custom() {
        return Failure::new(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type")
            .with(StatusDetails::default());
    }
    let types = match patch {
        true => "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        false => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    };
    let message = format!("the body of the request was in an unknown format - accepted media types include: {types}");
    Failure::new(415, Reason::UnsupportedMediaType, message)
}

pub(super) fn manager<'a>(registry: &Registry, call: &Call, place: &Place, options: &'a WriteOptions) -> Writer<'a> {
    let manager = Writer::new(options, call.user_agent(), registry.clock.now_text()).acting_as(call.user.clone());
    let manager = manager.noting_in(call.annotations.clone());
    let path = ResourcePath {
        group: place.kind.group.clone(),
        version: place.kind.version.clone(),
        namespace: place.namespace.clone(),
        resource: place.kind.plural.clone(),
        name: place.name.clone(),
        ..ResourcePath::default()
    };
    let create = Attributes::Resource { verb: Verb::Create.name(), path: &path, name: &place.name };
    let manager = manager.creating(auth::authorize(registry.rbac(), &call.user, &create));
    if !place.kind.is_custom() {
        return manager;
    }
    let kinds = registry.kinds();
    let versions = kinds.versions_of(&place.kind.store).map(|kind| kind.api_version());
    manager.serving(versions.collect())
}

/// The kind of a patch, by its media type.
pub(super) fn patch_kind(call: &Call, kind: &Kind) -> Outcome<decode::PatchKind> {
    decode::PatchKind::of(subresource::patch_media(call), kind).ok_or_else(|| unsupported(kind, true))
}

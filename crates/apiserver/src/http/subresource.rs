//! Paths below an object that are read and written as something else: `/scale`, `/binding`, `/eviction`.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use pintle_json::Json;
use pintle_meta::{Status, TypeMeta};

use super::body::{self, Incoming};
use super::decode::{self, PatchKind, Patcher};
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::{Call, write};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Origin, Place};
use crate::object::metadata;
use crate::registry::{Registry, Served};
use crate::request::options::{DeleteOptions, How, WriteOptions};
use crate::request::{Part, Verb};

/// The reading and writing of `/scale`.
pub(super) async fn scale(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    verb: Option<Verb>,
    incoming: Incoming,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Object, place.kind.origin())?;
    let kind = Arc::new(Kind::of_bodies("autoscaling", "v1", "Scale"));
    let written = match verb {
        Some(Verb::Get) => return Ok(Reply::Object { code: 200, kind, object: registry.scale(&place)?, format }),
        Some(Verb::Update) => {
            let body = write::read_object(call, incoming, &place.kind).await?;
            let options = WriteOptions::parse(&call.query, How::Put)?;
            let decoded = decode::object(&kind, &body, options.field_validation)?;
            call.warnings.extend(decoded.warnings);
            let manager = write::manager(registry, call, &place, &options);
            registry.update_scale(&place, &|_| Ok(decoded.value.clone()), &manager)?
        }
        _ => {
            let patch_kind = write::patch_kind(call, &place.kind)?;
            let body = decode::RawBody::new(body::read(call, incoming).await?, patch_kind.body()).await?;
            let options = WriteOptions::parse(&call.query, patch_kind.how())?;
            let manager = write::manager(registry, call, &place, &options);
            registry.get(&place)?;
            let patcher = Patcher::new(&kind, patch_kind, &body, &manager, Part::Object);
            let written = match patch_kind {
                PatchKind::Apply => registry.apply_scale(&place, patcher.wish()?, &manager)?,
                _ => registry.update_scale(&place, &|live| patcher.make(Some(live)), &manager)?,
            };
            call.warnings.extend(patcher.warnings());
            written
        }
    };
    Ok(write::written_reply(call, kind, written, format))
}

/// POST of a binding, to a pod's path or to the collection of bindings.
pub(super) async fn bind(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    incoming: Incoming,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Transient, Origin::BuiltIn)?;
    let (_, sent, options) = posted(call, &place, incoming, |_| Kind::of_bodies("", "v1", "Binding")).await?;
    let place = match place.name.is_empty() {
        false => Place { part: Part::Object, ..place },
        true => {
            let name = metadata::name(&sent);
            let kinds = registry.kinds();
            let pods = kinds.kind("", "v1", "Pod").ok_or_else(Failure::no_such_resource)?;
            Place::new(pods.clone(), &place.namespace, name)
        }
    };
    check_namespace(&place, &sent)?;
    registry.bind(&place, &sent, options.dry_run)?;
    Ok(created(format))
}

/// POST of an eviction.
pub(super) async fn evict(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    incoming: Incoming,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Transient, Origin::BuiltIn)?;
    let kind = |body: &decode::RawBody| {
        let sent = body.value(("policy/v1", "Eviction")).unwrap_or_default();
        let kind = Kind::of_bodies("policy", "v1", "Eviction");
        if sent["apiVersion"] == "policy/v1beta1" { kind.also_as("v1beta1") } else { kind }
    };
    let (_, sent, options) = posted(call, &place, incoming, kind).await?;
    check_namespace(&place, &sent)?;
    let mut delete = match &sent["deleteOptions"] {
        Json::Null => DeleteOptions::default(),
        options => DeleteOptions::from_body(options)?,
    };
    delete.dry_run |= options.dry_run;
    registry.evict(&Place { part: Part::Object, ..place }, &sent, &delete)?;
    Ok(created(format))
}

/// POST of a request for a service account's token.
pub(super) async fn token(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    incoming: Incoming,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Transient, Origin::BuiltIn)?;
    let kind = |_: &_| Kind::of_bodies("authentication.k8s.io", "v1", "TokenRequest");
    let (kind, sent, _) = posted(call, &place, incoming, kind).await?;
    let answer = registry.request_token(&Place { part: Part::Object, ..place }, &sent)?;
    Ok(Reply::Object { code: 201, object: Served::value(&kind, answer), kind, format })
}

/// What a POST sends, of the kind that its body says.
async fn posted(
    call: &mut Call,
    place: &Place,
    incoming: Incoming,
    kind: impl FnOnce(&decode::RawBody) -> Kind,
) -> Outcome<(Arc<Kind>, Json, WriteOptions)> {
    let body = write::read_object(call, incoming, &place.kind).await?;
    let options = WriteOptions::parse(&call.query, How::Post)?;
    let kind = Arc::new(kind(&body));
    let decoded = decode::object(&kind, &body, options.field_validation)?;
    call.warnings.extend(decoded.warnings);
    Ok((kind, decoded.value, options))
}

fn check_namespace(place: &Place, body: &Json) -> Outcome<()> {
    match body["metadata"]["namespace"].as_str() {
        Some(namespace) if !namespace.is_empty() && namespace != place.namespace => Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => Ok(()),
    }
}

fn created(format: negotiate::Format) -> Reply {
    let status = Status {
        types: TypeMeta { api_version: "v1".into(), kind: "Status".into() },
        status: "Success".into(),
        code: 201,
        ..Status::default()
    };
    Reply::Status { status: Box::new(status), format }
}

/// The media type of a patch, without its parameters.
pub(super) fn patch_media(call: &Call) -> &str {
    call.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

//! Paths below an object that are read and written as something else: `/scale`, `/binding`, `/eviction`.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use pintle_meta::{Status, TypeMeta};
use serde_json::Value;

use super::body::{self, Incoming};
use super::decode::{self, PatchKind, Patcher};
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::{Call, write};
use crate::failure::{Failure, Outcome};
use crate::kinds::{Kind, Place};
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
    let format = negotiate::negotiate(call, Offer::Object, place.kind.custom)?;
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
            let patch_kind = write::patch_kind(call, place.kind.custom)?;
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
    let format = negotiate::negotiate(call, Offer::Transient, false)?;
    let kind = Arc::new(Kind::of_bodies("", "v1", "Binding"));
    let body = write::read_object(call, incoming, &place.kind).await?;
    let options = WriteOptions::parse(&call.query, How::Post)?;
    let decoded = decode::object(&kind, &body, options.field_validation)?;
    let place = match place.name.is_empty() {
        false => Place { part: Part::Object, ..place },
        true => {
            let name = decoded.value["metadata"]["name"].as_str().unwrap_or_default();
            let kinds = registry.kinds();
            let pods = kinds.kind("", "v1", "Pod").ok_or_else(Failure::no_such_resource)?;
            Place::new(pods.clone(), &place.namespace, name)
        }
    };
    check_namespace(&place, &decoded.value)?;
    call.warnings.extend(decoded.warnings);
    registry.bind(&place, &decoded.value, options.dry_run)?;
    Ok(created(format))
}

/// POST of an eviction.
pub(super) async fn evict(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    incoming: Incoming,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Transient, false)?;
    let body = write::read_object(call, incoming, &place.kind).await?;
    let options = WriteOptions::parse(&call.query, How::Post)?;
    let sent = body.value(("policy/v1", "Eviction")).unwrap_or_default();
    let kind = Kind::of_bodies("policy", "v1", "Eviction");
    let kind = Arc::new(if sent["apiVersion"] == "policy/v1beta1" { kind.also_as("v1beta1") } else { kind });
    let decoded = decode::object(&kind, &body, options.field_validation)?;
    check_namespace(&place, &decoded.value)?;
    let mut delete = match &decoded.value["deleteOptions"] {
        Value::Null => DeleteOptions::default(),
        options => DeleteOptions::from_body(options)?,
    };
    delete.dry_run |= options.dry_run;
    call.warnings.extend(decoded.warnings);
    registry.evict(&Place { part: Part::Object, ..place }, &decoded.value, &delete)?;
    Ok(created(format))
}

/// POST of a request for a service account's token.
pub(super) async fn token(
    registry: &Arc<Registry>,
    call: &mut Call,
    place: Place,
    incoming: Incoming,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(call, Offer::Transient, false)?;
    let kind = Arc::new(Kind::of_bodies("authentication.k8s.io", "v1", "TokenRequest"));
    let body = write::read_object(call, incoming, &place.kind).await?;
    let options = WriteOptions::parse(&call.query, How::Post)?;
    let decoded = decode::object(&kind, &body, options.field_validation)?;
    call.warnings.extend(decoded.warnings);
    let place = Place { part: Part::Object, ..place };
    let answer = registry.request_token(&place, &decoded.value)?;
    Ok(Reply::Object { code: 201, object: Served::value(&kind, answer), kind, format })
}

fn check_namespace(place: &Place, body: &Value) -> Outcome<()> {
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

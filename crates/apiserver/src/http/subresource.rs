//! Serves subresources with their own kind of body, such as `/scale`, and subresources that support only POST requests,
//! such as `/eviction`.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::options::{How, WriteOptions};
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_kinds::decode::{self, PatchKind, Patcher};
use pintle_kinds::post_handler::PostHandler;
use pintle_kinds::{RequestTarget, ScaleBody};
use pintle_meta::{Status, TypeMeta};

use super::body::{self, RequestBody};
use super::call::Call;
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::sent;
use crate::registry::{Registry, Served};

pub(super) fn get(registry: &Registry, call: &Call, target: &RequestTarget) -> Outcome<Reply> {
    let format = negotiate::object(&call.head, target)?;
    let object = registry.get(target)?;
    Ok(Reply::Object { code: 200, kind: target.kind.clone(), object, format })
}

pub(super) async fn scale(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: RequestTarget,
    verb: Verb,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(&call.head, Offer::Object, &target.kind)?;
    let kind = Arc::new(ScaleBody::kind());
    let written = match verb {
        Verb::Get => {
            let object = registry.read_with_webhooks(&call.requester, || registry.scale(&target)).await?;
            return Ok(Reply::Object { code: 200, kind, object, format });
        }
        Verb::Update => {
            let body = sent::read_object(registry, call, request_body, &target.kind).await?;
            let options = WriteOptions::parse(&call.head.query, How::Put)?;
            let decoded = decode::object(&kind, &body, options.field_validation)?;
            call.warnings.extend(decoded.warnings);
            drop(body);
            let manager = sent::manager(registry, call, &target, &options);
            registry.update_scale(&target, How::Put, &|_| Ok(decoded.value.clone()), &manager).await?
        }
        Verb::Patch => {
            let patch_kind = sent::patch_kind(call, &target.kind)?;
            let body = decode::RawBody::new(body::read(registry, call, request_body).await?, patch_kind.body());
            let options = WriteOptions::parse(&call.head.query, patch_kind.how())?;
            let manager = sent::manager(registry, call, &target, &options);
            registry.get(&target)?;
            let patcher = Patcher::new(&kind, patch_kind, body, &manager, Subresource::None);
            let written = match patch_kind {
                PatchKind::Apply => registry.apply_scale(&target, patcher.source()?, &manager).await?,
                _ => registry.update_scale(&target, How::Patch, &|live| patcher.make(Some(live)), &manager).await?,
            };
            call.warnings.extend(patcher.warnings());
            written
        }
        // Unreachable, because the router passes no other verbs to this handler.
        _ => return Err(Failure::method_not_allowed()),
    };
    Ok(sent::written_reply(kind, written, format))
}

pub(super) async fn post(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: &RequestTarget,
    post_handler: &dyn PostHandler,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(&call.head, Offer::Transient, &target.kind)?;
    let body = sent::read_object(registry, call, request_body, &target.kind).await?;
    let options = WriteOptions::parse(&call.head.query, How::Post)?;
    let undecoded = body.value(("", "")).unwrap_or_default();
    let kind = post_handler.body(target, undecoded.text("/apiVersion"));
    let sent = sent::decoded(call, &kind, body, &options)?;
    drop(undecoded);
    let manager = sent::manager(registry, call, target, &options);
    call.requester.check_time()?;
    let attempt = || registry.post(post_handler, target, sent.clone(), &manager);
    Ok(match registry.with_webhooks(&call.requester, attempt).await? {
        Some(answer) => Reply::Object { code: 201, object: Served::value(&kind, answer), kind, format },
        None => created(format),
    })
}

fn created(format: negotiate::ResponseFormat) -> Reply {
    let status = Status {
        types: TypeMeta { api_version: "v1".into(), kind: "Status".into() },
        status: "Success".into(),
        code: 201,
        ..Status::default()
    };
    Reply::Status { status: Box::new(status), format }
}

//! Handles create, update, patch and delete requests.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::options::{DeleteOptions, How, ListOptions, WriteOptions};
use pintle_json::Json;
use pintle_kinds::{RequestTarget, decode};

use super::body::{self, RequestBody};
use super::call::Call;
use super::encode::Reply;
use super::negotiate::{self, Offer};
use super::retrieve;
use super::sent::{decoded, manager, patch_kind, read_object, unsupported, written_reply};
use crate::registry::{Deleted, Registry, Selection, UpdateSource};

pub(super) async fn create(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: RequestTarget,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let kind = target.kind.clone();
    let format = negotiate::negotiate(&call.head, Offer::Object, &kind)?;
    let body = read_object(registry, call, request_body, &kind).await?;
    let options = WriteOptions::parse(&call.head.query, How::Post)?;
    let object = decoded(call, &kind, body, &options)?;
    let manager = manager(registry, call, &target, &options);
    registry.prepare_webhooks(&call.requester);
    let written = match call.requester.webhooks() {
        None => registry.create(&target, object, &manager)?,
        Some(_) => {
            registry.with_webhooks(&call.requester, || registry.create(&target, object.clone(), &manager)).await?
        }
    };
    Ok(written_reply(kind, written, format))
}

pub(super) async fn update(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: RequestTarget,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let kind = target.kind.clone();
    let format = negotiate::object(&call.head, &target)?;
    let body = read_object(registry, call, request_body, &kind).await?;
    let options = WriteOptions::parse(&call.head.query, How::Put)?;
    let object = decoded(call, &kind, body, &options)?;
    let manager = manager(registry, call, &target, &options);
    let written = registry.guaranteed_update(&target, &UpdateSource::Put(&object), &manager).await?;
    Ok(written_reply(kind, written, format))
}

pub(super) async fn patch(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: RequestTarget,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let kind = target.kind.clone();
    let format = negotiate::object(&call.head, &target)?;
    let patch_kind = patch_kind(call, &kind)?;
    let body = decode::RawBody::new(body::read(registry, call, request_body).await?, patch_kind.body());
    let options = WriteOptions::parse(&call.head.query, patch_kind.how())?;
    let manager = manager(registry, call, &target, &options);
    let patcher = decode::Patcher::new(&kind, patch_kind, body, &manager, target.subresource);
    let make = |live: Option<&Json>| patcher.make(live);
    let source = match patch_kind.how() {
        How::Apply => UpdateSource::Apply(&make),
        _ => UpdateSource::Patch(&make),
    };
    let written = registry.guaranteed_update(&target, &source, &manager).await;
    call.warnings.extend(patcher.warnings());
    let written = written?;
    Ok(written_reply(kind, written, format))
}

pub(super) async fn delete(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: RequestTarget,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let format = negotiate::negotiate(&call.head, Offer::Object, &target.kind)?;
    let options = delete_options(registry, call, &target, request_body).await?;
    warn_of_orphans(call, &target, &options);
    let kind = target.kind.clone();
    let attempt = || registry.delete(&target, &options, &call.requester);
    let deleted = if options.dry_run {
        registry.read_with_webhooks(&call.requester, attempt).await?
    } else {
        registry.with_webhooks(&call.requester, attempt).await?
    };
    Ok(match deleted {
        // Status 202 means that the object still exists until its dependents have been deleted. As in kube-apiserver,
        // the server returns status 202 only for the deprecated option `orphanDependents=false`.
        Deleted::Held(object) if options.orphan_dependents == Some(false) => {
            Reply::Object { code: 202, kind, object, format }
        }
        Deleted::Held(object) | Deleted::Object(object) => Reply::Object { code: 200, kind, object, format },
        Deleted::Gone(status) => Reply::Status { status, format },
    })
}

pub(super) async fn delete_collection(
    registry: &Arc<Registry>,
    call: &mut Call,
    target: RequestTarget,
    request_body: RequestBody,
) -> Outcome<Reply> {
    let kind = target.kind.clone();
    let format = negotiate::negotiate(&call.head, Offer::List, &kind)?;
    let mut list = ListOptions::parse(&call.head.query)?;
    list.watch = false;
    let selection = Selection::parse(&target, &list)?;
    list.check()?;
    let selection = selection.checked()?;
    let options = delete_options(registry, call, &target, request_body).await?;
    warn_of_orphans(call, &target, &options);
    if let Some(version) = registry.version_to_wait_for(&list)? {
        retrieve::wait_for(registry, &kind, version, None).await?;
    }
    let list = registry.delete_collection(&selection, &list, &options, &call.requester).await?;
    Ok(Reply::List { kind, list, format })
}

fn warn_of_orphans(call: &mut Call, target: &RequestTarget, options: &DeleteOptions) {
    if options.propagation.is_none() && options.orphan_dependents.is_none() {
        call.warnings.extend(target.kind.strategy.orphaning_warning().map(Into::into));
    }
}

/// Returns the options of a DELETE request, which are in the body, or in the query if the body is empty.
async fn delete_options(
    registry: &Registry,
    call: &mut Call,
    target: &RequestTarget,
    request_body: RequestBody,
) -> Outcome<DeleteOptions> {
    let content_type = call.head.header(CONTENT_TYPE).to_owned();
    let bytes = body::read(registry, call, request_body).await?;
    if bytes.is_empty() {
        return DeleteOptions::from_query(&call.head.query);
    }
    let media = decode::media(&content_type).ok_or_else(|| unsupported(&target.kind, false))?;
    let body = decode::RawBody::new(bytes, media);
    let body = body
        .value(("v1", "DeleteOptions"))
        .map_err(|why| Failure::bad_request(decode::undecodable_options(media, &why)))?;
    // Release the permit, because deleting a collection can take a long time.
    call.requester.release_permit();
    DeleteOptions::from_body(&body)
}

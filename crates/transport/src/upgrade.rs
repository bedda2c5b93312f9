//! Upgrades HTTP/1.1 connections to another protocol.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use pintle_meta::__private::Mutex;

use crate::connect::{Conn, Connector};
use crate::failure::Failure;
use crate::http1::{self, Http1};
use crate::request_body::RequestBody;
use crate::response_body::ResponseBody;

/// A connection after it has been upgraded to another protocol.
pub struct Upgraded {
    /// The connection to the server.
    pub io: Conn,
    /// Data of the new protocol that arrived together with the response headers.
    pub received: Bytes,
}

/// The response extension that contains the upgraded connection. Clones share the connection, because extensions must
/// be `Clone`. Only the first call of [`Upgraded::take`] returns the connection.
#[derive(Clone)]
struct Slot(Arc<Mutex<Option<Upgraded>>>);

/// The maximum number of body bytes to read if a response rejects an upgrade.
const MAX_REFUSAL: usize = 64 << 10;
/// The timeout for reading the body if a response rejects an upgrade.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

impl Upgraded {
    /// Takes the upgraded connection out of a response with status 101. Returns `None` if a layer has dropped the
    /// connection.
    pub fn take<B>(response: &Response<B>) -> Option<Self> {
        let Slot(slot) = response.extensions().get()?;
        slot.lock().take()
    }
}

/// Sends an upgrade request on a separate connection. If the server accepts the upgrade, the response's extensions
/// contain the connection. If the server rejects it, the response contains the server's body.
///
/// The pool is not involved, because the caller owns the connection after the upgrade.
pub(super) async fn round_trip(
    connector: &Connector,
    request: &mut Request<RequestBody>,
) -> Result<Response<ResponseBody>, Failure> {
    let mut http1 = Http1::new(connector.clone().without_http2().connect().await?);
    let response = http1.upgrade(request).await;
    let response = response.map_err(|error| Failure::of_exchange(error.source, false, true))?;
    let (head, body) = response.into_parts();
    if head.status != StatusCode::SWITCHING_PROTOCOLS {
        // If reading the body fails, return the rejection with the data that was read.
        let mut whole = BytesMut::new();
        drop(tokio::time::timeout(REFUSAL_TIMEOUT, read(&mut http1, body, &mut whole)).await);
        whole.truncate(MAX_REFUSAL);
        return Ok(Response::from_parts(head, ResponseBody::of_bytes(whole.freeze())));
    }
    let (io, received) = http1.into_parts();
    let mut response = Response::from_parts(head, ResponseBody::of_bytes(Bytes::new()));
    response.extensions_mut().insert(Slot(Arc::new(Mutex::new(Some(Upgraded { io, received })))));
    Ok(response)
}

async fn read(http1: &mut Http1, mut body: http1::ResponseBody, whole: &mut BytesMut) {
    while whole.len() < MAX_REFUSAL
        && let Some(Ok(data)) = poll_fn(|cx| http1.poll_frame(&mut body, cx)).await
    {
        whole.extend_from_slice(&data);
    }
}

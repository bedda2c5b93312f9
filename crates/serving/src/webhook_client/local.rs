//! Calls webhooks of the same process without a socket.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};

use super::{Exchanged, WebhookTarget, content_type, dial_error, parse, received, send, unsent, words};

/// The future of a [`LocalHandler`]. An error is the reason why the connection failed.
pub type LocalAnswer = Pin<Box<dyn Future<Output = io::Result<Response<Full<Bytes>>>> + Send>>;
/// A function that processes one request for a webhook.
pub type LocalHandler = Box<dyn FnOnce(Request<Full<Bytes>>) -> LocalAnswer + Send>;
type Find = Box<dyn Fn(&Uri) -> Option<LocalHandler> + Send + Sync>;

/// The webhooks that a server calls without a socket. By default, there are none.
#[derive(Default)]
pub struct LocalWebhooks(OnceLock<Find>);

impl LocalWebhooks {
    /// Sets the function that returns the handler for the URL of a webhook. If the function returns `None`, the server
    /// uses a socket. Later calls of this method have no effect.
    pub fn set(&self, find: impl Fn(&Uri) -> Option<LocalHandler> + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(find));
    }

    /// Returns `true` if the server calls the webhook without a socket.
    pub fn contains(&self, url: &str) -> bool {
        self.find(url).is_some()
    }

    fn find(&self, url: &str) -> Option<LocalHandler> {
        self.0.get()?(&parse(url).ok()?)
    }

    /// Sends a review to a webhook, like [`send`]. If the webhook is local, the call uses no socket and no certificate.
    ///
    /// # Errors
    ///
    /// Returns the same error messages as [`send`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call.
    pub async fn send(
        &self,
        target: WebhookTarget,
        review: String,
        address: Option<SocketAddr>,
        timeout: Duration,
    ) -> Result<Arc<str>, String> {
        match self.find(&target.url) {
            Some(handler) => received(&target.url, timeout, async |url| call(url, handler, review).await).await,
            None => send(target, review, address, timeout).await,
        }
    }
}

async fn call(url: &str, handler: LocalHandler, review: String) -> Result<Exchanged, String> {
    let uri = parse(url)?;
    let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
    let response = handler(unsent(&uri, Method::POST, review.into())?).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => dial_error(&error, host, port, None),
        _ => words(&error),
    })?;
    let (status, content_type) = (response.status(), content_type(&response));
    // Collecting a `Full` body cannot fail.
    let body = response.into_body().collect().await.map_or_else(|never| match never {}, |body| body.to_bytes());
    Ok((status, content_type, body))
}

impl fmt::Debug for LocalWebhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWebhooks").finish_non_exhaustive()
    }
}

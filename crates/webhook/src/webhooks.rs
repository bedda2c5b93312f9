//! A `tower` service that contains all webhooks of a program.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_meta::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::budget::Budget;
use crate::endpoint::Endpoint;
use crate::hub::{Conversion, Hub};
use crate::webhook::Webhook;

/// The webhooks of a program. `Webhooks` implements [`tower_service::Service`] for HTTP requests with any body type,
/// and creates the objects that register the webhooks in the cluster.
///
/// Clones share the handlers and the memory budget for bodies. A response body counts towards the budget until all its
/// bytes are sent or dropped, so a server should limit the time for sending a response, as `WebhookServer` does.
///
/// | request | response |
/// |---|---|
/// | a review for a webhook | 200, and a review with the answer |
/// | another path | 404 |
/// | not POST | 405 |
/// | a body above the limit: 8 MiB, for conversions 64 MiB | 413 |
/// | a body that is not a `v1` review, or has a uid above 128 bytes, or whose user and options have more than 1 MiB | 400 |
/// | a body that does not arrive within 10 s, or whose memory other bodies need | 408 |
///
/// If a handler fails or panics, the API server receives `allowed: false` with code 500. If a handler times out, the
/// API server receives `allowed: false` with code 504. If the API server closes the connection, the service drops the
/// future of the handler.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use http::Request;
/// use http_body_util::Full;
/// use pintle_meta::ObjectMeta;
/// use pintle_webhook::{Admission, Denial, Webhook, Webhooks};
/// use serde::{Deserialize, Serialize};
/// use tower_service::Service;
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     domain: String,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// async fn lower_case(request: Admission<Website>) -> Result<Website, Denial> {
///     let mut site = request.object;
///     site.domain.make_ascii_lowercase();
///     Ok(site)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut webhooks = Webhooks::new().add(Webhook::mutate(lower_case));
/// let request = Request::post("/mutate/example.com/v1/websites").body(Full::<Bytes>::from("no review"))?;
/// assert_eq!(webhooks.call(request).await?.status(), 400);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "webhooks do nothing until they are served"]
pub struct Webhooks {
    pub(crate) routes: BTreeMap<String, Arc<Route>>,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) budget: Budget,
}

#[allow(clippy::large_enum_variant, reason = "a program has a few, each in an `Arc`")]
pub(crate) enum Route {
    Admission(Webhook),
    Conversion(Conversion),
}

impl Webhooks {
    /// Creates a service without webhooks.
    #[expect(clippy::new_without_default, reason = "no webhooks are no useful default")]
    pub fn new() -> Self {
        Self { routes: BTreeMap::new(), endpoint: None, budget: Budget::new() }
    }

    /// Adds an admission webhook.
    ///
    /// # Panics
    ///
    /// Panics if another webhook has the same path. To change the path of a webhook, set its [name](Webhook::name).
    #[allow(clippy::should_implement_trait, reason = "webhooks have no sum")]
    pub fn add(self, webhook: Webhook) -> Self {
        self.route(webhook.path(), Route::Admission(webhook))
    }

    /// Adds a kind's conversion webhook.
    ///
    /// # Panics
    ///
    /// Panics if the kind already has a conversion webhook.
    pub fn convert<H: Resource + DeserializeOwned + Serialize>(self, hub: Hub<H>) -> Self {
        let conversion = hub.conversion();
        self.route(conversion.path(), Route::Conversion(conversion))
    }

    fn route(mut self, path: String, route: Route) -> Self {
        assert!(!self.routes.contains_key(&path), "two webhooks have the path {path}; name one of them");
        self.routes.insert(path, Arc::new(route));
        self
    }

    /// Sets the address at which the API server calls the webhooks. Webhooks without an endpoint cannot be registered
    /// in the cluster.
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoint = Some(endpoint);
        self
    }

    /// Returns the paths of all webhooks in ascending order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.routes.keys().map(String::as_str)
    }
}

pintle_meta::debug_struct!(Webhooks |self| { paths = self.routes.keys().collect::<Vec<_>>(), endpoint, .. });

//! The debug page and its JSON data.

mod controllers;
mod elections;
mod informers;
mod page;
mod parts;
mod query;
mod text;

use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use pintle_controller::{ControllerStatus, Health, ManagerStatus};
use pintle_informer::InformerFactory;
use pintle_sharding::ShardsStatus;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::parts::{MOST, of_most};
use self::query::Wanted;
use self::text::{now, seconds, shortened, time};

/// The version of the format of `/debug.json`, which is incremented when a member is removed or changes its meaning.
const FORMAT: u32 = 1;

/// The data sources of the debug page, which are read when a request is handled.
pub(crate) struct Debug {
    pub(crate) name: String,
    pub(crate) started: SystemTime,
    pub(crate) status: ManagerStatus,
    pub(crate) informers: Vec<InformerFactory>,
    pub(crate) shards: Vec<ShardsStatus>,
    pub(crate) stop: CancellationToken,
}

impl Debug {
    /// Returns the HTML page, which is the same for all programs.
    pub(crate) fn page(&self) -> Response<Full<Bytes>> {
        let mut response = response(StatusCode::OK, "text/html; charset=utf-8", page::HTML);
        page::add_headers(response.headers_mut());
        response
    }

    /// Returns the manager's state as JSON. `waits_for` is the reason why the manager has not yet started.
    pub(crate) fn json(
        &self,
        query: Option<&str>,
        live: &Health,
        ready: &Health,
        waits_for: Option<String>,
    ) -> Response<Full<Bytes>> {
        let controllers = self.status.controllers();
        let explained = match self.explained(query, &controllers) {
            Ok(explained) => explained,
            Err((status, problem)) => return response(status, "text/plain; charset=utf-8", problem + "\n"),
        };
        let now = now();
        let keys = controllers::keys_per_list(controllers.len());
        let informers: Vec<_> = self.informers.iter().flat_map(InformerFactory::informers).collect();
        let (shards, shards_left_out) = elections::shards(&self.shards);
        let document = json!({
            "format": FORMAT,
            "name": shortened(&self.name),
            "now": time(now),
            "started": time(self.started),
            "uptime_seconds": seconds(now.duration_since(self.started).unwrap_or_default()),
            "phase": self.phase(waits_for.is_some()),
            "waits_for": waits_for.as_deref().map(shortened),
            "live": checks(live),
            "ready": checks(ready),
            "leader": self.status.election().map(|election| elections::lease(&election)),
            "controllers": of_most(&controllers, |controller| controllers::controller(controller, keys)),
            "informers": of_most(&informers, |informer| informers::informer(informer, now)),
            "shards": shards,
            "left_out": {
                "controllers": controllers.len().saturating_sub(MOST),
                "informers": informers.len().saturating_sub(MOST),
                "shards": shards_left_out,
            },
            "explanation": explained,
        });
        response(StatusCode::OK, "application/json", document.to_string())
    }

    /// Returns the explanation that the query requests. An error contains the status and the text of the response.
    fn explained(
        &self,
        query: Option<&str>,
        controllers: &[ControllerStatus],
    ) -> Result<Option<Value>, (StatusCode, String)> {
        let wanted = query::parse(query.unwrap_or_default()).map_err(|problem| (StatusCode::BAD_REQUEST, problem))?;
        let Some(Wanted { controller: name, key }) = wanted else { return Ok(None) };
        let Some(controller) = controllers.iter().find(|controller| controller.name() == name) else {
            let names = of_most(controllers, |controller| format!("{:?}", shortened(controller.name())));
            let names = if names.is_empty() { "none yet".to_owned() } else { names.join(", ") };
            let name = shortened(&name);
            let problem = format!("no controller is named {name:?}; the controllers are: {names}");
            return Err((StatusCode::NOT_FOUND, problem));
        };
        match controller.explain(&key) {
            Some(explained) => Ok(Some(controllers::explanation(controller, &explained))),
            None => {
                let (name, key) = (shortened(&name), shortened(&key));
                let problem =
                    format!("controller {name:?} knows no key {key:?}; the key of an object is namespace/name");
                Err((StatusCode::NOT_FOUND, problem))
            }
        }
    }

    fn phase(&self, is_starting: bool) -> &'static str {
        if self.stop.is_cancelled() {
            "stopping"
        } else if is_starting {
            "starting"
        } else if self.status.is_leader() {
            "running"
        } else {
            "standby"
        }
    }
}

fn checks(health: &Health) -> Vec<Value> {
    of_most(&health.checks, |check| parts::check(&check.name, check.problem.as_deref()))
}

fn response(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Without this header, a page from another origin could embed the response and draw conclusions from its size and
    // timing.
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

//! An admission plugin for tests, and a server whose admission chain ends with this plugin.

mod tests;

use std::mem;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_json::{Json, json};
use pintle_meta::__private::Mutex;
use pintle_storage::Charge;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::background::Background;
use crate::config::ApiServerConfig;
use crate::registry::{AdmissionOptions, AdmissionRequest, Plugin, Registry};
use crate::server::bootstrap::bootstrap;

const IN: &str = "/api/v1/namespaces/n";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A plugin that records the admission calls for the namespace `n` and its objects, and reacts to them as the test
/// configures.
#[derive(Debug, Default)]
struct Witness(Mutex<WitnessState>);

#[derive(Debug, Default)]
struct WitnessState {
    reaction: Reaction,
    records: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Reaction {
    #[default]
    Nothing,
    Change,
    /// Sets a string field of the new object, given a JSON pointer and the new string.
    Set(&'static str, &'static str),
    Refuse(&'static str),
}

impl Witness {
    fn observe(&self, phase: &'static str, request: &AdmissionRequest<'_>) -> Outcome<Reaction> {
        let target = request.target;
        if target.namespace != "n" && (&*target.kind.kind, &*target.name) != ("Namespace", "n") {
            return Ok(Reaction::Nothing);
        }
        let mut state = self.0.lock();
        state.records.push(format!("{phase} {}", describe(request)));
        request.by.warn(format!("{phase} looked"));
        match state.reaction {
            Reaction::Refuse(when) if when == phase => {
                Err(Failure::forbidden(&request.target.kind.resource(), request.name(), "the witness says no"))
            }
            reaction => Ok(reaction),
        }
    }

    fn set_reaction(&self, reaction: Reaction) {
        self.0.lock().reaction = reaction;
    }

    fn take_records(&self) -> Vec<String> {
        mem::take(&mut self.0.lock().records)
    }
}

impl Plugin for Witness {
    fn admit(&self, _: &Registry, request: &mut AdmissionRequest<'_>) -> Outcome<()> {
        let reaction = self.observe("admit", request)?;
        match (reaction, request.new.as_deref_mut()) {
            (Reaction::Change, Some(new)) => {
                let (pointer, value) = sampled_field(new);
                set(new, pointer, value);
            }
            (Reaction::Set(pointer, text), Some(new)) => set(new, pointer, text.into()),
            _ => (),
        }
        Ok(())
    }

    fn validate(&self, _: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        self.observe("validate", request).map(|_| Vec::new())
    }
}

/// The recorded kinds. For each kind, the plugin records the field at the JSON pointer, and [`Reaction::Change`] sets
/// the field to the value.
const SAMPLED_FIELDS: &[(&str, &str, &str)] = &[
    ("ConfigMap", "/data/k", "changed"),
    ("Lease", "/spec/holderIdentity", "changed"),
    ("Pod", "/status/message", "changed"),
    ("Scale", "/spec/replicas", "7"),
    ("Binding", "/target/name", "changed"),
    ("TokenRequest", "/spec/expirationSeconds", "7200"),
    ("Eviction", "/deleteOptions/gracePeriodSeconds", "7"),
    ("LocalSubjectAccessReview", "/spec/user", "changed"),
    ("Deployment", "/metadata/name", ""),
    ("Namespace", "/spec/finalizers", ""),
    ("PodDisruptionBudget", "/status/disruptionsAllowed", ""),
    ("ResourceQuota", "/status/used/configmaps", ""),
    ("RoleBinding", "/roleRef/name", ""),
    ("ServiceAccount", "/metadata/name", ""),
    ("Widget", "/metadata/name", ""),
    ("PodExecOptions", "/container", "changed"),
    ("PodAttachOptions", "/container", "changed"),
    ("PodPortForwardOptions", "/ports", "[7]"),
];

/// Returns the JSON pointer of the recorded field, and the value that [`Reaction::Change`] sets.
fn sampled_field(object: &Json) -> (&'static str, Json) {
    let kind = object.text("/kind");
    let (_, pointer, value) =
        SAMPLED_FIELDS.iter().find(|(known, ..)| *known == kind).unwrap_or_else(|| panic!("{object}"));
    (pointer, serde_json::from_str(value).unwrap_or_else(|_| (*value).into()))
}

fn set(object: &mut Json, pointer: &str, value: Json) {
    *pointer[1..].split('/').fold(object, |parent, name| &mut parent[name]) = value;
}

fn summary(object: Option<&Json>) -> String {
    let Some(object) = object else { return "-".into() };
    let value =
        object.at(sampled_field(object).0).map(|value| value.as_str().map_or_else(|| value.to_string(), Into::into));
    format!("{}({})", object.text("/kind"), value.unwrap_or_default())
}

fn describe(request: &AdmissionRequest<'_>) -> String {
    let target = request.target;
    let options = match request.options {
        AdmissionOptions::Write(options) => format!("manager {}", options.field_manager),
        AdmissionOptions::Delete(options) => format!("{:?}", options.propagation),
        AdmissionOptions::None => "none".into(),
    };
    format!(
        "{:?} {}/{} {}/{} {} -> {} by {} options {options}{}",
        request.operation,
        target.kind.resource(),
        target.subresource.name(),
        target.namespace,
        request.name(),
        summary(request.old),
        summary(request.new.as_deref()),
        request.by.user.name,
        if request.dry_run() { " dry" } else { "" },
    )
}

struct WitnessedServer {
    registry: Arc<Registry>,
    witness: Arc<Witness>,
    background: Background,
    stop: CancellationToken,
}

struct WitnessAnswer {
    code: u16,
    warnings: Vec<String>,
    body: Json,
}

impl WitnessedServer {
    async fn start() -> Self {
        let witness = Arc::new(Witness::default());
        let mut registry = Registry::new(ApiServerConfig::default(), None);
        registry.admission_chain.push(witness.clone());
        let registry = Arc::new(registry);
        let (address, stop) = (SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 1), CancellationToken::new());
        bootstrap(&registry, address);
        let background = Background::start(&registry, address, &stop, &TaskTracker::new()).await;
        let server = Self { registry, witness, background, stop };
        server.make("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
        server
    }

    async fn call(&self, method: Method, path: &str, media: &str, body: &Json) -> WitnessAnswer {
        self.call_as(["jane", "system:masters"], method, path, media, body).await
    }

    async fn call_as(
        &self,
        [user, group]: [&str; 2],
        method: Method,
        path: &str,
        media: &str,
        body: &Json,
    ) -> WitnessAnswer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let body = Full::new(text.into()).map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let request = request.header("impersonate-user", user).header("impersonate-group", group);
        let request = request.body(body).expect("a request");
        let (head, body) = crate::http::respond(self.registry.clone(), request, |_| ()).await.0.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let warnings = head.headers.get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().expect("a text").trim_start_matches("299 - ").to_owned());
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        WitnessAnswer { code: head.status.as_u16(), warnings: warnings.collect(), body }
    }

    async fn make(&self, path: &str, body: Json) -> Json {
        let made = self.call(Method::POST, path, JSON, &body).await;
        assert_eq!(made.code, 201, "{}", made.body);
        self.witness.take_records();
        made.body
    }
}

impl Drop for WitnessedServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

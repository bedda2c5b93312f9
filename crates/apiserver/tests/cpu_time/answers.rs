//! Requests with expensive responses. The responses contain objects of the maximum size, or objects that the server
//! must convert from their stored form.

use std::sync::Arc;

use http::Method;
use http_body_util::BodyExt;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::bodies::{
    DEFINITIONS, DEPLOYMENTS, WIDGETS, config_map, definition, deployment, members, widget, with_metadata,
};
use crate::support::*;

const YAML: &[(&str, &str)] = &[("accept", "application/yaml")];
const PROTOBUF: &[(&str, &str)] = &[("accept", "application/vnd.kubernetes.protobuf")];
const PROTOBUF_STREAM: &[(&str, &str)] = &[("accept", "application/vnd.kubernetes.protobuf;stream=watch")];
const TABLE: &[(&str, &str)] = &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
const GZIP: &[(&str, &str)] = &[("accept-encoding", "gzip")];

/// A request with an expensive response, and the writes that create the objects for the response.
#[derive(Clone)]
pub(crate) struct HeavyAnswer {
    pub(crate) name: &'static str,
    before: Vec<(Method, String, Json)>,
    path: String,
    headers: &'static [(&'static str, &'static str)],
    /// The path of a collection in which the test changes an object while it reads a watch. `None` if the test's
    /// request is not a watch.
    changed: Option<&'static str>,
}

pub(crate) fn answers() -> Vec<HeavyAnswer> {
    let post = |path: &str, object: Json| vec![(Method::POST, path.to_owned(), object)];
    let map = || post(CONFIG_MAPS, config_map(json!({"data": members(40_000, "k", &"v".into())})));
    let labelled = || post(CONFIG_MAPS, with_metadata("labels", members(40_000, "k", &"v".into())));
    let large = || post(DEPLOYMENTS, deployment(5_000));
    let widgets = |defaults: Json| {
        let item = json!({"type": "object", "properties": {"k": {"type": "string"}, "d": defaults}});
        definition(json!({"type": "object", "properties": {"l": {"type": "array", "items": item}}}))
    };
    let defaulted = || {
        let items: Json = (0..20_000).map(|at| json!({"k": format!("k{at}")})).collect();
        let now = widgets(json!({"type": "string", "default": "as long as some are"}));
        vec![
            (Method::POST, DEFINITIONS.to_owned(), widgets(json!({"type": "string"}))),
            (Method::POST, WIDGETS.to_owned(), widget(json!({"l": items}))),
            (
                Method::PATCH,
                format!("{DEFINITIONS}/widgets.e.com"),
                json!({"spec": {"versions": now["spec"]["versions"]}}),
            ),
        ]
    };
    let read = |name, before, path: &str, headers| {
        let path = path.to_owned();
        HeavyAnswer { name, before, path, headers, changed: None }
    };
    let watch = |name, before, path: &'static str, headers| {
        let changed = Some(path);
        HeavyAnswer { name, before, path: format!("{path}?watch=1"), headers, changed }
    };
    vec![
        read("an object in YAML", map(), &format!("{CONFIG_MAPS}/heavy"), YAML),
        read("a list in YAML", map(), CONFIG_MAPS, YAML),
        read("a pretty list", map(), &format!("{CONFIG_MAPS}?pretty=true"), &[]),
        read("a list in protobuf", map(), CONFIG_MAPS, PROTOBUF),
        read("a table", map(), CONFIG_MAPS, TABLE),
        read("a compressed list", map(), CONFIG_MAPS, GZIP),
        read("labels of a list", labelled(), &format!("{CONFIG_MAPS}?labelSelector=a=b"), &[]),
        read("labels of a page", labelled(), &format!("{CONFIG_MAPS}?labelSelector=a=b&limit=1"), &[]),
        read("a scale", large(), &format!("{DEPLOYMENTS}/heavy/scale"), &[]),
        read("defaults of an object", defaulted(), &format!("{WIDGETS}/heavy"), &[]),
        read("defaults of a list", defaulted(), WIDGETS, &[]),
        watch("a watch in protobuf", map(), CONFIG_MAPS, PROTOBUF_STREAM),
        watch("a watch of tables", map(), CONFIG_MAPS, TABLE),
        watch("defaults of a watch", defaulted(), WIDGETS, &[]),
    ]
}

impl HeavyAnswer {
    pub(crate) async fn serve(&self) -> Arc<ApiServer> {
        let server = Arc::new(ApiServer::start(ApiServerConfig::default()).await.expect("a server"));
        for (method, path, object) in &self.before {
            let made = call(&server, method.clone(), path, object.clone()).await;
            assert!(matches!(made.code, 200 | 201), "{}: {} {:?}", self.name, made.code, made.body["message"]);
            server.settle().await;
        }
        server
    }

    pub(crate) async fn read(self, server: Arc<ApiServer>) {
        let (head, mut body) = send(&server, Method::GET, &self.path, self.headers, "").await.into_parts();
        assert_eq!(head.status, 200, "{}", self.name);
        // Do not parse the response, because parsing would also block this thread.
        let Some(path) = self.changed else {
            body.collect().await.expect("a whole body");
            return;
        };
        let label = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let media = [("content-type", "application/merge-patch+json")];
        for change in [false, true] {
            if change {
                send(&server, Method::PATCH, &format!("{path}/heavy"), &media, &label).await;
            }
            let event = tokio::time::timeout(PATIENCE, body.frame()).await.expect("an event in time");
            event.expect("the watch goes on").expect("the connection holds");
        }
    }
}

//! The steps `READY` and `CALLS`, which test webhooks and policies.

use std::time::Duration;

use anyhow::{Context, ensure};
use indexmap::IndexMap;
use tokio::time::{Instant, sleep};

use super::{Session, content, request};
use crate::case::{Step, StepHeaders};
use crate::json::Json;
use crate::ready::{Probe, lease};
use crate::responder::Responder;

/// The maximum time to wait for a real server to activate an admission object or to remove a CustomResourceDefinition.
const READY_PATIENCE: Duration = Duration::from_secs(15);
/// The fraction of the server's wait limit for a wait, if it is shorter than [`READY_PATIENCE`]. A low wait limit means
/// that the server applies admission changes immediately.
const SHARE_OF_PATIENCE: u32 = 3;

impl Session<'_> {
    pub(super) async fn start_webhooks(&mut self, webhooks: Option<&Json>) -> anyhow::Result<()> {
        let responder = Responder::start().await?;
        for (name, value) in responder.variables() {
            self.placeholders.save(name, &Json::Text(value));
        }
        if let Some(webhooks) = webhooks {
            responder.set_behaviours(&self.placeholders.fill_json(webhooks)?)?;
        }
        self.responder = Some(responder);
        Ok(())
    }

    /// Waits until all existing admission objects of a kind are active. Creates a probe, sends dry-run requests until
    /// the probe takes effect, and deletes the probe. When the probe takes effect, all earlier admission objects are
    /// active, because a server activates them in creation order.
    pub(super) async fn wait_until_ready(&mut self, family: &str) -> anyhow::Result<()> {
        self.probes += 1;
        let probe = Probe::new(family, self.placeholders.fill(&format!("zz-{}.${{id}}.example.org", self.probes))?)?;
        let result = self.wait_for_effect(&probe).await;
        for (path, _) in probe.objects().iter().rev() {
            self.send(&request("DELETE", &format!("{path}/{}", probe.name), None)).await?;
        }
        result
    }

    async fn wait_for_effect(&self, probe: &Probe) -> anyhow::Result<()> {
        for (path, object) in probe.objects() {
            let answer = self.send(&request("POST", &path, Some(&object.to_string()))).await?;
            ensure!(answer.status == 201, "POST {path}: {} {}", answer.status, content(&answer));
        }
        let path = "/apis/coordination.k8s.io/v1/namespaces/${ns}/leases?dryRun=All";
        let create = request("POST", path, Some(&lease().to_string()));
        let limit = self.ready_patience();
        let deadline = Instant::now() + limit;
        loop {
            let answer = self.send(&create).await?;
            if probe.has_effect(&answer, self.responder.as_ref())? {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not in force after {limit:?}: {}", content(&answer));
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for a limited time until the server has removed the CustomResourceDefinitions of the case. A server first
    /// deletes the custom resources, and a real server may call the conversion webhook for this purpose.
    pub(super) async fn wait_for_deletions(&self) {
        let deadline = Instant::now() + self.ready_patience();
        for path in self.created.iter().filter(|path| path.contains("/customresourcedefinitions/")) {
            let get = request("GET", path, None);
            // Stop waiting if a request fails, because the verdict of the case does not depend on these requests.
            while self.send(&get).await.is_ok_and(|answer| answer.status == 200) && Instant::now() < deadline {
                sleep(Duration::from_millis(50)).await;
            }
        }
    }

    fn ready_patience(&self) -> Duration {
        READY_PATIENCE.min(self.server.patience / SHARE_OF_PATIENCE)
    }

    /// Returns the webhook calls since the last `CALLS` step, in the form in which a case records them.
    pub(super) fn calls(&mut self, step: &Step) -> anyhow::Result<Json> {
        let path = step.path.as_deref().map(|path| self.placeholders.fill(path)).transpose()?;
        let responder = self.responder.as_ref().context("CALLS in a case without webhooks")?;
        let mut calls = responder.take_calls(path.as_deref());
        if step.ordered != Some(true) {
            calls.sort_by(|a, b| a.path.cmp(&b.path));
        }
        let mut kept: Vec<Json> = Vec::new();
        for call in calls {
            self.placeholders.learn(&call.body);
            let mut members = IndexMap::from([("path".to_owned(), Json::Text(call.path))]);
            if matches!(step.headers, Some(StepHeaders::Recorded(true))) {
                members.insert("headers".to_owned(), call.headers);
            }
            match &step.only {
                Some(only) => members.insert("at".to_owned(), self.values_at(only, &call.body)?),
                None => members.insert("body".to_owned(), call.body),
            };
            let call = Json::Object(members);
            if step.distinct != Some(true) || !kept.contains(&call) {
                kept.push(call);
            }
        }
        Ok(Json::object([("calls", Json::Array(kept))]))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::client::{Client, Trust};
    use crate::session::Server;

    fn server(url: &str) -> Arc<Server> {
        let client = Client::new(url, &Trust::Anyone, Duration::from_secs(30)).expect("a valid URL");
        Arc::new(Server { client, token: "token".to_owned(), patience: Duration::MAX })
    }

    fn step(text: &str) -> Step {
        serde_json::from_str(text).expect("a step")
    }

    /// Sends reviews to webhooks and returns the calls that the responder recorded. Each item of `reviews` is a pair
    /// of a path and an object name.
    async fn calls(reviews: &[(&str, &str)], calls: &str) -> String {
        let unused = server("http://127.0.0.1:1");
        let mut session = Session::new(&unused, "abcdef");
        let webhooks = serde_json::from_str(r#"{"/v":{},"/w":{}}"#).expect("test JSON");
        session.start_webhooks(Some(&webhooks)).await.expect("a responder");
        let hook = server(&session.placeholders.fill("${hook}").expect("a variable"));
        let caller = Session::new(&hook, "abcdef");
        for (path, name) in reviews {
            let review = format!(r#"{{"request":{{"name":"{name}"}}}}"#);
            assert_eq!(caller.send(&request("POST", path, Some(&review))).await.expect("a response").status, 200);
        }
        let mut ran = session.step(&step(calls)).await.expect("a responder");
        session.mask(&mut ran);
        ran.answer.expect("an answer").to_string()
    }

    const REVIEWS: [(&str, &str); 4] = [("/w", "a"), ("/v?timeout=1s", "a-abcdef"), ("/w", "b"), ("/w", "a")];

    #[tokio::test]
    async fn calls_are_sorted_by_path_and_keep_their_bodies() {
        let expected = r#"{"calls":[{"path":"/v?timeout=1s","body":{"request":{"name":"a-${id}"}}},{"path":"/w","body":{"request":{"name":"a"}}}]}"#;
        assert_eq!(calls(&REVIEWS[..2], r#"{"do":"CALLS"}"#).await, expected);
    }

    #[tokio::test]
    async fn distinct_calls_keep_each_wanted_value_once() {
        let names = |names: &[&str]| {
            let calls =
                names.iter().map(|name| format!(r#"{{"path":"/w","at":{{"/request/name":"{name}","/x":null}}}}"#));
            format!(r#"{{"calls":[{}]}}"#, calls.collect::<Vec<_>>().join(","))
        };
        let only = |more: &str| format!(r#"{{"do":"CALLS","path":"/w","only":["/request/name","/x"]{more}}}"#);
        assert_eq!(calls(&REVIEWS, &only("")).await, names(&["a", "b", "a"]));
        assert_eq!(calls(&REVIEWS, &only(r#","distinct":true"#)).await, names(&["a", "b"]));
    }

    #[tokio::test]
    async fn ordered_calls_are_in_the_order_of_their_arrival() {
        let ordered = r#"{"do":"CALLS","only":[],"ordered":true,"headers":false}"#;
        let expected = r#"{"calls":[{"path":"/w","at":{}},{"path":"/v?timeout=1s","at":{}}]}"#;
        assert_eq!(calls(&REVIEWS[..2], ordered).await, expected);
    }

    #[tokio::test]
    async fn headers_of_calls_are_recorded_on_request() {
        let headers =
            r#"{"content-type":"application/json","user-agent":"recorder/1 (cases)","authorization":"Bearer token"}"#;
        let expected = format!(r#"{{"calls":[{{"path":"/w","headers":{headers},"at":{{}}}}]}}"#);
        assert_eq!(calls(&REVIEWS[..1], r#"{"do":"CALLS","only":[],"headers":true}"#).await, expected);
    }

    #[tokio::test]
    async fn calls_without_webhooks_are_an_error() {
        let unused = server("http://127.0.0.1:1");
        let error = Session::new(&unused, "abcdef").step(&step(r#"{"do":"CALLS"}"#)).await.expect_err("no webhooks");
        assert!(error.to_string().contains("without webhooks"), "{error}");
    }
}

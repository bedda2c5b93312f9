//! Runs the steps of a case against a server.

mod admission;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use indexmap::IndexMap;
use serde_json::Number;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::case::{Case, Step, StepHeaders};
use crate::client::{Answer, Client};
use crate::json::Json;
use crate::placeholders::{Placeholders, is_list};
use crate::responder::Responder;
use crate::stream::Stream;
use crate::token;

/// Headers that are recorded with every response.
const HEADERS: [&str; 8] =
    ["content-type", "warning", "retry-after", "location", "allow", "etag", "content-encoding", "www-authenticate"];
/// Headers that are recorded only if `all_headers` is set.
const EXTRA_HEADERS: [&str; 7] = [
    "vary",
    "cache-control",
    "transfer-encoding",
    "audit-id",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
    "x-content-type-options",
];

/// The letters for generated names. The letters exclude vowels, to avoid accidental words in names.
const LETTERS: &[u8] = b"bcdfghjkmnpqrstvwxz";

pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) token: String,
    pub(crate) patience: Duration,
}

/// Runs a case in its own namespace and returns its steps with the server's responses. After the last step, deletes
/// the namespace and the cluster-scoped objects that the case created.
///
/// The future always completes, because each wait has a deadline.
pub(crate) async fn run(server: &Arc<Server>, case: &Case) -> anyhow::Result<Vec<Step>> {
    let id: String = (0..6).map(|_| char::from(LETTERS[fastrand::usize(..LETTERS.len())])).collect();
    let mut session = Session::new(server, &id);
    if !case.is_bare() {
        let body = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"t-{id}"}}}}"#);
        session.send(&request("POST", "/api/v1/namespaces", Some(&body))).await.context("creating the namespace")?;
    }
    let result = session.run_case(case).await;
    session.clean_up(&id).await;
    result
}

pub(crate) struct Session<'a> {
    server: &'a Arc<Server>,
    placeholders: Placeholders,
    streams: BTreeMap<String, Stream>,
    responder: Option<Responder>,
    probes: usize,
    created: Vec<String>,
}

impl<'a> Session<'a> {
    /// Creates a session. The session's generated names contain `id`. The value of `${ns}` is `t-` followed by `id`.
    pub(crate) fn new(server: &'a Arc<Server>, id: &str) -> Self {
        let placeholders = Placeholders::new(id);
        Self { server, placeholders, streams: BTreeMap::new(), responder: None, probes: 0, created: Vec::new() }
    }

    pub(crate) fn save(&mut self, name: &str, value: &Json) {
        self.placeholders.save(name, value);
    }

    /// Sends a GET request and returns the JSON body of the response.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails, if the status code is not 200, or if the body is not JSON.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Json> {
        let answer = self.send(&request("GET", path, None)).await?;
        let content = content(&answer);
        let body = content.member("body").filter(|_| answer.status == 200).cloned();
        body.with_context(|| format!("GET {path}: {} {content}", answer.status))
    }

    /// Runs the steps of a case. The webhooks of the case keep running until the session is dropped.
    async fn run_case(&mut self, case: &Case) -> anyhow::Result<Vec<Step>> {
        if case.has_webhooks() {
            self.start_webhooks(case.webhooks.as_ref()).await?;
        }
        self.run_steps(&case.steps).await
    }

    /// Deletes the session's namespace and all created cluster-scoped objects, even after a failed step. A webhook that
    /// was not deleted could reject the requests of other cases. Ignores errors, because they do not affect the verdict
    /// of the case.
    async fn clean_up(&self, id: &str) {
        for path in self.created.iter().rev() {
            drop(self.send(&request("DELETE", path, None)).await);
        }
        drop(self.send(&request("DELETE", &format!("/api/v1/namespaces/t-{id}"), None)).await);
        if self.responder.is_some() {
            self.wait_for_deletions().await;
        }
    }

    async fn run_steps(&mut self, steps: &[Step]) -> anyhow::Result<Vec<Step>> {
        let mut finished = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let result = self.step(step).await;
            finished.push(result.with_context(|| format!("step {index} {step}"))?);
        }
        finished.iter_mut().for_each(|step| self.mask(step));
        Ok(finished)
    }

    /// Replaces values that differ between runs in the response of a step. Must be called after the last step of the
    /// case.
    pub(crate) fn mask(&self, step: &mut Step) {
        step.steps.iter_mut().flatten().for_each(|step| self.mask(step));
        step.answer = step.answer.as_ref().map(|answer| self.placeholders.mask(answer));
    }

    pub(crate) async fn step(&mut self, step: &Step) -> anyhow::Result<Step> {
        let answer = match step.what.as_str() {
            "SLEEP" => {
                sleep(seconds(step)).await;
                None
            }
            "UNTIL" => {
                self.wait_until(step).await?;
                None
            }
            "READY" => {
                for family in step.of.iter().flatten() {
                    self.wait_until_ready(family).await.with_context(|| format!("READY of {family}"))?;
                }
                None
            }
            "CALLS" => Some(self.calls(step)?),
            "TOGETHER" => return self.send_together(step).await,
            "WATCH" => Some(self.open_watch(step).await?),
            "READ" => Some(self.read_frames(step).await?),
            _ => {
                let answer = self.send_until_initialized(step).await?;
                Some(self.record(step, &answer)?)
            }
        };
        Ok(Step { answer, ..step.clone() })
    }

    async fn send_together(&mut self, step: &Step) -> anyhow::Result<Step> {
        let mut steps = step.steps.clone().unwrap_or_default();
        let mut running = JoinSet::new();
        for (index, step) in steps.iter().enumerate() {
            let (server, request) = (self.server.clone(), self.request(step)?);
            running.spawn(async move { (index, server.client.send(request).await) });
        }
        while let Some(done) = running.join_next().await {
            let (index, answer) = done?;
            let recorded = self.record(&steps[index], &answer?)?;
            steps[index].answer = Some(recorded);
        }
        Ok(Step { steps: Some(steps), ..step.clone() })
    }

    async fn wait_until(&self, step: &Step) -> anyhow::Result<()> {
        let limit = seconds(step).min(self.server.patience);
        let deadline = Instant::now() + limit;
        let pointer = step.pointer.as_deref().map(|pointer| self.placeholders.fill(pointer)).transpose()?;
        let equals = step.equals.as_ref().map(|value| self.placeholders.fill_json(value)).transpose()?;
        let mut pause = Duration::from_millis(10);
        let request = step.request.as_deref().unwrap_or(step);
        loop {
            let answer = self.send(request).await?;
            let content = content(&answer);
            let value = pointer.as_ref().and_then(|pointer| content.member("body")?.at(pointer));
            let is_met = match (step.status, &equals, step.present) {
                (Some(status), ..) => answer.status == status,
                (_, Some(equals), _) => value == Some(equals),
                (.., Some(present)) => value.is_some_and(|value| !matches!(value, Json::Null)) == present,
                _ => bail!("UNTIL has no condition"),
            };
            if is_met {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("the condition was not met within {limit:?}; last: {} {content}", answer.status);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    async fn open_watch(&mut self, step: &Step) -> anyhow::Result<Json> {
        let streaming = self.server.client.open(self.request(step)?).await?;
        if streaming.response.status() != 200 {
            let answer = streaming.read_body().await?;
            let recorded = recorded_response(&answer, false);
            recorded.member("body").into_iter().for_each(|body| self.placeholders.learn(body));
            return Ok(recorded);
        }
        let headers = recorded_headers(streaming.response.headers(), false, |values| Json::Text(values.join(", ")));
        let name = step.stream.clone().context("WATCH without a name")?;
        self.streams.insert(name, Stream::new(streaming));
        Ok(Json::object([("status", Json::Number(200.into())), ("headers", headers)]))
    }

    async fn read_frames(&mut self, step: &Step) -> anyhow::Result<Json> {
        let name = step.stream.as_deref().unwrap_or_default();
        let stream = self.streams.get_mut(name).with_context(|| format!("stream {name:?} was not opened"))?;
        let frames = stream.take(step, Instant::now() + seconds(step)).await?;
        let frames = Json::Array(frames);
        self.placeholders.learn(&frames);
        let mut answer = IndexMap::from([("frames".to_owned(), frames)]);
        if step.end.is_some() || step.frames.is_none() {
            answer.insert("ended".to_owned(), Json::Bool(stream.ended()));
        }
        Ok(Json::Object(answer))
    }

    /// Retries a request while a real server rejects it because the storage of a changed CustomResourceDefinition is
    /// initializing.
    async fn send_until_initialized(&self, step: &Step) -> anyhow::Result<Answer> {
        const RETRIES: usize = 9;
        for _ in 0..RETRIES {
            let answer = self.send(step).await?;
            if answer.status != 429 || !String::from_utf8_lossy(&answer.body).contains("storage is (re)initializing") {
                return Ok(answer);
            }
            sleep(Duration::from_millis(300)).await;
        }
        self.send(step).await
    }

    async fn send(&self, step: &Step) -> anyhow::Result<Answer> {
        self.server.client.send(self.request(step)?).await
    }

    fn request(&self, step: &Step) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut headers = vec![("User-Agent", "recorder/1 (cases)".to_owned())];
        let token = match step.user.as_deref() {
            None => Some(self.server.token.as_str()),
            Some("nobody") => Some("nobody-token"),
            Some("bad") => Some("bad-token"),
            Some("none") => None,
            Some(token) => Some(token),
        };
        headers.extend(token.map(|token| ("Authorization", format!("Bearer {token}"))));
        let body = self.body(step)?;
        if step.body.is_some() || step.raw.is_some() {
            headers.push(("Content-Type", "application/json".to_owned()));
        }
        for (name, value) in step.headers.iter().flat_map(StepHeaders::sent) {
            headers.retain(|(known, _)| *known != name);
            if let Some(value) = value {
                headers.push((name, self.placeholders.fill(value)?));
            }
        }
        if body.is_some() || matches!(step.what.as_str(), "POST" | "PUT" | "PATCH") {
            headers.push(("Content-Length", body.as_ref().map_or(0, Bytes::len).to_string()));
        }
        let method = if matches!(step.what.as_str(), "WATCH" | "UNTIL") { "GET" } else { &step.what };
        let path = quote(&self.placeholders.fill(step.path.as_deref().unwrap_or("/"))?);
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes())?).uri(path);
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).with_context(|| format!("header {name}"))?;
            request = request.header(HeaderName::from_bytes(name.as_bytes())?, value);
        }
        Ok(request.body(Full::new(body.unwrap_or_default()))?)
    }

    fn body(&self, step: &Step) -> anyhow::Result<Option<Bytes>> {
        Ok(if let Some(body) = &step.body {
            Some(self.placeholders.fill_json(body)?.as_sent().into())
        } else if let Some(raw) = &step.raw {
            Some(self.placeholders.fill(raw)?.into())
        } else if let Some(b64) = &step.b64 {
            Some(STANDARD.decode(b64)?.into())
        } else {
            step.fill.as_ref().map(|fill| fill.text.repeat(fill.times).into())
        })
    }

    /// Returns the parts of a response that a case records. Also collects uids and revisions, and saves the step's
    /// variables.
    fn record(&mut self, step: &Step, answer: &Answer) -> anyhow::Result<Json> {
        let mut recorded = recorded_response(answer, step.all_headers.unwrap_or(false));
        let body = recorded.member("body").cloned();
        body.iter().for_each(|body| self.placeholders.learn(body));
        self.remember_created(step, answer.status, body.as_ref())?;
        for (name, source) in step.save.iter().flatten() {
            let value = match source.strip_prefix("header:") {
                Some(header) => {
                    let value = answer.headers.get(header);
                    value.map(|value| Json::Text(latin1(value)))
                }
                None => body.as_ref().and_then(|body| body.at(&self.placeholders.fill(source).ok()?)).cloned(),
            };
            let value = value.with_context(|| format!("no value at {source}: {} {recorded}", answer.status))?;
            self.placeholders.save(name, &value);
        }
        let claims = match step.claims.as_ref().zip(body.as_ref()).filter(|_| answer.status < 300) {
            None => None,
            Some((pointer, body)) => {
                let token = body.at(pointer).and_then(Json::text).with_context(|| format!("no token at {pointer}"))?;
                Some(token::claims(token)?)
            }
        };
        claims.iter().for_each(|claims| self.placeholders.learn(claims));
        let Json::Object(members) = &mut recorded else { return Ok(recorded) };
        members.extend(claims.map(|claims| ("claims".to_owned(), claims)));
        if let Some(Json::Object(headers)) = members.get_mut("headers") {
            headers.retain(|name, _| !step.without.iter().flatten().any(|omitted| omitted == name));
        }
        if step.fill.is_some() {
            members.shift_remove("b64");
        }
        let Some(only) = &step.only else { return Ok(recorded) };
        members.retain(|name, _| name != "body" && (body.is_some() || name != "b64"));
        if let Some(body) = body {
            members.insert("at".to_owned(), self.values_at(only, &body)?);
        }
        Ok(recorded)
    }

    /// Returns an object that maps each pointer in the case to its value in the body.
    fn values_at(&self, pointers: &[String], body: &Json) -> anyhow::Result<Json> {
        let mut at = IndexMap::new();
        for pointer in pointers {
            let mut value = body.at(&self.placeholders.fill(pointer)?).cloned().unwrap_or(Json::Null);
            if pointer == "/metadata/resourceVersion" && is_list(body) && value.is_digits() {
                value = Json::from("<list-rv>");
            }
            at.insert(pointer.clone(), value);
        }
        Ok(Json::Object(at))
    }

    /// Remembers the path of a cluster-scoped object that the step created, so that [`run`] can delete it.
    fn remember_created(&mut self, step: &Step, status: u16, body: Option<&Json>) -> anyhow::Result<()> {
        let path = self.placeholders.fill(step.path.as_deref().unwrap_or_default())?;
        let created = step.what == "POST" && status == 201;
        if created && !path.contains("dryRun") && !path.contains("/namespaces/") {
            let name = body.and_then(|body| body.at("/metadata/name")).and_then(Json::text).unwrap_or_default();
            let collection = path.split_once('?').map_or(path.as_str(), |(path, _)| path);
            // Skip reviews, such as a TokenReview, which have no name and are not stored.
            if !name.is_empty() {
                self.created.push(format!("{collection}/{name}"));
            }
        }
        Ok(())
    }
}

fn request(method: &str, path: &str, body: Option<&str>) -> Step {
    Step { what: method.to_owned(), path: Some(path.to_owned()), raw: body.map(str::to_owned), ..Step::default() }
}

fn seconds(step: &Step) -> Duration {
    let seconds = step.seconds.as_ref().and_then(Number::as_f64).unwrap_or(5.0);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(5))
}

/// Returns a response in its recorded form: status, headers, and `body`, `text` or `b64`.
fn recorded_response(answer: &Answer, all_headers: bool) -> Json {
    let headers = recorded_headers(&answer.headers, all_headers, |mut values| match values.len() {
        1 => Json::Text(values.remove(0)),
        _ => {
            values.sort();
            Json::Array(values.into_iter().map(Json::Text).collect())
        }
    });
    let status = Json::Number(answer.status.into());
    let mut members = IndexMap::from([("status".to_owned(), status), ("headers".to_owned(), headers)]);
    if let Json::Object(content) = content(answer) {
        members.extend(content);
    }
    if all_headers && answer.body.starts_with(b"{\n") {
        members.insert("indented".to_owned(), Json::Bool(true));
    }
    Json::Object(members)
}

/// Returns the content of a response as an object with the single member `body`, `text` or `b64`. Returns an empty
/// object for an empty response.
fn content(answer: &Answer) -> Json {
    let kind = answer.headers.get(http::header::CONTENT_TYPE).map(latin1).unwrap_or_default();
    let text = || Json::Text(String::from_utf8_lossy(&answer.body).into_owned());
    // Also check the body, because a server sends some JSON bodies with the content type `text/plain`.
    let (name, content) = if kind.contains("json") || answer.body.starts_with(b"{\"") {
        serde_json::from_slice(&answer.body).map_or_else(|_| ("text", text()), |body| ("body", body))
    } else if kind.contains("protobuf") {
        ("b64", Json::Text(STANDARD.encode(&answer.body)))
    } else if answer.body.is_empty() {
        return Json::object([]);
    } else {
        ("text", text())
    };
    Json::object([(name, content)])
}

fn recorded_headers(headers: &HeaderMap, all: bool, join: impl Fn(Vec<String>) -> Json) -> Json {
    let names = HEADERS.iter().chain(EXTRA_HEADERS.iter().filter(|_| all));
    let found = names.filter_map(|name| {
        let values: Vec<String> = headers.get_all(*name).iter().map(latin1).collect();
        (!values.is_empty()).then(|| ((*name).to_owned(), join(values)))
    });
    Json::Object(found.collect())
}

/// Decodes a header as ISO 8859-1, like the recorder.
fn latin1(value: &HeaderValue) -> String {
    value.as_bytes().iter().map(|byte| char::from(*byte)).collect()
}

/// Percent-encodes characters that a request line must not contain. Keeps encoded characters unchanged.
fn quote(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-~/?=&%:,+!()*'@$;".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

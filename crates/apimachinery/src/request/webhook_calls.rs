//! The webhook calls of one request.
//!
//! An attempt to write never awaits. If an attempt needs the answer of a webhook, it records the call and fails. The server then performs
//! the call and starts a new attempt, which finds the answer. Therefore, each attempt must compute the same object. The values that an
//! attempt would otherwise generate again, such as the uid, are kept for all attempts of a request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pintle_json::Json;

/// A call to a webhook. This type does not implement `Debug`, because the review can contain a Secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WebhookCall {
    /// Identifies the webhook and the run of admission. The URL does not identify the webhook, because two webhooks can have the same URL.
    pub id: String,
    pub client: Arc<WebhookClient>,
    /// The review as JSON. The uid in the review is empty, because the server generates the uid when it performs the call.
    pub review: String,
}

/// The server of a webhook.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct WebhookClient {
    /// The URL without a query.
    pub url: String,
    /// The Service in the form `namespace/name:port`. The text is empty if the configuration contains a URL instead.
    pub service: String,
    /// The certificates of the trusted authorities, in PEM. If there are none, the authorities of the system are trusted.
    pub ca_bundle: Vec<u8>,
    pub timeout_seconds: u32,
}

impl WebhookClient {
    /// Reads the members `clientConfig` and `timeoutSeconds` of a webhook.
    pub fn read(webhook: &Json) -> Self {
        let config = &webhook["clientConfig"];
        let timeout = webhook.integer("/timeoutSeconds").and_then(|seconds| u32::try_from(seconds).ok());
        let mut client = Self {
            url: config.text("/url").to_owned(),
            service: String::new(),
            ca_bundle: STANDARD.decode(config.text("/caBundle")).unwrap_or_default(),
            timeout_seconds: timeout.unwrap_or(10),
        };
        if config.has("/service") {
            let (namespace, name) = (config.text("/service/namespace"), config.text("/service/name"));
            let port = config.integer("/service/port").unwrap_or(443);
            let path = config.text("/service/path");
            let slash = if path.starts_with('/') { "" } else { "/" };
            client.url = format!("https://{name}.{namespace}.svc:{port}{slash}{path}");
            client.service = format!("{namespace}/{name}:{port}");
        }
        client
    }
}

/// The webhook that converts the objects of a custom resource.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ConversionWebhook {
    pub client: Arc<WebhookClient>,
    /// The name of the kind.
    pub kind: String,
    /// Whether the webhook gets reviews of the version `v1`. If not, the reviews have the version `v1beta1`.
    pub is_v1: bool,
}

/// An object that a webhook must convert. This type does not implement `Debug`, because the object can contain a Secret.
#[derive(Clone)]
pub struct WantedConversion {
    pub webhook: Arc<ConversionWebhook>,
    pub from: String,
    pub to: String,
    /// The object contains its `apiVersion` and `kind`, but not its resourceVersion. As in kube-apiserver, a webhook does not see the
    /// resourceVersion of a stored object.
    pub object: Arc<Json>,
}

/// The answer to a [`WebhookCall`].
#[derive(Clone)]
pub struct WebhookAnswer {
    /// The uid in the review that was sent.
    pub uid: String,
    /// The body of the response, or the reason why there is none.
    pub body: Result<Arc<str>, String>,
}

/// The answers of webhooks for one request, and the calls whose answers the last attempt needed but did not have.
#[derive(Clone, Default)]
pub struct WebhookCalls(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    answers: HashMap<WebhookCall, WebhookAnswer>,
    missing: Vec<WebhookCall>,
    /// The results of conversions, or the reasons why they failed. The keys are the requested version and the JSON of the object.
    conversions: HashMap<(String, String), Result<Arc<Json>, String>>,
    wanted: Vec<WantedConversion>,
    /// The reason for the first failed conversion. Only conversions that an attempt needed are considered.
    failed: Option<String>,
    uid: Option<String>,
    now: Option<Timestamp>,
    generated_names: Vec<String>,
}

impl WebhookCalls {
    /// Returns the answer to a call. If there is no answer yet, records the call and returns `None`.
    pub fn ask(&self, call: WebhookCall) -> Option<WebhookAnswer> {
        let mut calls = self.calls();
        if let Some(answer) = calls.answers.get(&call) {
            return Some(answer.clone());
        }
        calls.missing.push(call);
        None
    }

    /// Removes and returns the calls whose answers the last attempt needed but did not have.
    pub fn take_missing(&self) -> Vec<WebhookCall> {
        std::mem::take(&mut self.calls().missing)
    }

    pub fn add(&self, call: WebhookCall, answer: WebhookAnswer) {
        self.calls().answers.insert(call, answer);
    }

    /// Returns the object in the version `to`, as the webhook has converted it. Its metadata are not restored yet. Returns `None` if the
    /// webhook has not converted the object yet, or if the conversion has failed. In both cases, the attempt must not write.
    pub fn converted(
        &self,
        webhook: &Arc<ConversionWebhook>,
        object: &Json,
        from: &str,
        to: &str,
    ) -> Option<Arc<Json>> {
        let mut sent = object.clone();
        sent.set("apiVersion", from);
        sent.set("kind", webhook.kind.as_str());
        if let Some(metadata) = sent.get_mut("metadata") {
            metadata.unset("resourceVersion");
        }
        let mut calls = self.calls();
        match calls.conversions.get(&(to.to_owned(), sent.to_string())) {
            Some(Ok(converted)) => Some(converted.clone()),
            Some(Err(why)) => {
                let why = why.clone();
                calls.failed.get_or_insert(why);
                None
            }
            None => {
                let (webhook, from, to) = (webhook.clone(), from.to_owned(), to.to_owned());
                calls.wanted.push(WantedConversion { webhook, from, to, object: Arc::new(sent) });
                None
            }
        }
    }

    /// Removes and returns the conversions that the last attempt needed but did not have.
    pub fn take_wanted(&self) -> Vec<WantedConversion> {
        std::mem::take(&mut self.calls().wanted)
    }

    pub fn add_conversion(&self, wanted: &WantedConversion, result: Result<Arc<Json>, String>) {
        self.calls().conversions.insert((wanted.to.clone(), wanted.object.to_string()), result);
    }

    /// Returns whether the last attempt needed an answer or a conversion that it did not have.
    pub fn is_missing(&self) -> bool {
        let calls = self.calls();
        !calls.missing.is_empty() || !calls.wanted.is_empty()
    }

    /// Returns the reason for the failure of a conversion that the last attempt needed.
    pub fn take_failed(&self) -> Option<String> {
        self.calls().failed.take()
    }

    /// Forgets all conversions. A watch calls this method after each event.
    pub fn forget_conversions(&self) {
        let mut calls = self.calls();
        (calls.conversions, calls.wanted, calls.failed) = Default::default();
    }

    /// Returns the uid of the object that the request creates.
    pub fn uid(&self, generate: impl FnOnce() -> String) -> String {
        self.calls().uid.get_or_insert_with(generate).clone()
    }

    /// Returns the time of the first attempt.
    pub fn now(&self, read: impl FnOnce() -> Timestamp) -> Timestamp {
        *self.calls().now.get_or_insert_with(read)
    }

    /// Returns the generated name with the index `at`.
    pub fn generated_name(&self, at: usize, generate: impl FnOnce() -> String) -> String {
        let mut calls = self.calls();
        if calls.generated_names.len() <= at {
            calls.generated_names.push(generate());
        }
        calls.generated_names[calls.generated_names.len().min(at + 1) - 1].clone()
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The debug output contains no review, because a review can contain a Secret.
impl fmt::Debug for WebhookCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookCalls").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(review: &str) -> WebhookCall {
        let client = WebhookClient {
            url: "https://h/v".into(),
            service: String::new(),
            ca_bundle: Vec::new(),
            timeout_seconds: 1,
        };
        WebhookCall { id: String::new(), client: Arc::new(client), review: review.into() }
    }

    #[test]
    fn call_is_missing_until_it_is_answered() {
        let calls = WebhookCalls::default();
        assert!(calls.ask(call("a")).is_none());
        let missing = calls.take_missing();
        assert_eq!(missing.len(), 1);
        calls.add(missing[0].clone(), WebhookAnswer { uid: "u".into(), body: Ok("b".into()) });
        assert!(calls.ask(call("a")).is_some_and(|answer| answer.uid == "u"));
        assert!(calls.ask(call("b")).is_none(), "another review has another answer");
        assert_eq!(calls.take_missing().len(), 1);
    }

    #[test]
    fn generated_values_are_the_same_in_each_attempt() {
        let calls = WebhookCalls::default();
        let clone = calls.clone();
        assert_eq!(calls.uid(|| "1".into()), "1");
        assert_eq!(clone.uid(|| "2".into()), "1");
        assert_eq!(calls.generated_name(0, || "a".into()), "a");
        assert_eq!(calls.generated_name(1, || "b".into()), "b");
        assert_eq!(clone.generated_name(0, || "c".into()), "a");
        assert_eq!(clone.generated_name(1, || "c".into()), "b");
    }
}

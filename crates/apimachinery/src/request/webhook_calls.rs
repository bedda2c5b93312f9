//! The webhook calls of a request.
//!
//! Write attempts are synchronous, so they cannot wait for a webhook. If an attempt needs the response of a webhook,
//! the attempt fails and records the call that it needs. The server then calls the webhook, stores its response, and
//! starts a new attempt. All attempts of a request must compute the same object, so they share generated data, such as
//! the uid.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use pintle_json::Json;
use pintle_meta::__private::Mutex;

/// A webhook call. The type does not implement `Debug`, because the review can contain a Secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WebhookCall {
    /// Identifies the webhook and the admission run that calls it. A URL is not enough, because two webhooks can have
    /// the same URL.
    pub id: String,
    pub client: Arc<WebhookClient>,
    /// The review as JSON, without a uid, which the server generates when it performs the call.
    pub review: String,
}

/// The address, the trusted certificates and the timeout of a webhook's server.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct WebhookClient {
    /// The URL without a query.
    pub url: String,
    /// The Service as `namespace/name:port`, or an empty string if the webhook configuration contains a URL.
    pub service: String,
    /// The PEM certificates of the trusted authorities. If empty, the certificate authorities of the system are
    /// trusted.
    pub ca_bundle: Vec<u8>,
    pub timeout_seconds: u32,
}

impl WebhookClient {
    /// Reads a webhook's `clientConfig` and `timeoutSeconds`.
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

/// A webhook that converts custom resources.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ConversionWebhook {
    pub client: Arc<WebhookClient>,
    /// The name of the custom resource's kind.
    pub kind: String,
    /// Whether the webhook receives `v1` reviews instead of `v1beta1` reviews.
    pub is_v1: bool,
}

/// An object that a webhook must convert. The type does not implement `Debug`, because the object can be a Secret.
#[derive(Clone)]
pub struct MissingConversion {
    pub webhook: Arc<ConversionWebhook>,
    pub from: String,
    pub to: String,
    /// The object with its `apiVersion` and `kind`, but without its resourceVersion. As in kube-apiserver, webhooks do
    /// not see the resourceVersion of a stored object.
    pub object: Arc<Json>,
}

/// The response to a [`WebhookCall`].
#[derive(Clone)]
pub struct WebhookAnswer {
    /// The uid of the sent review.
    pub uid: String,
    /// The response body, or the reason why the webhook returned none.
    pub body: Result<Arc<str>, String>,
}

/// The webhook responses for one request, and the calls that its last attempt still needs.
#[derive(Clone, Default)]
pub struct WebhookCalls(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    /// The responses to webhook calls. Each flag is `true` if an attempt has used the response since the last call of
    /// `take_missing_calls`.
    answers: HashMap<WebhookCall, (WebhookAnswer, bool)>,
    missing_calls: Vec<WebhookCall>,
    /// Maps a requested version and an object's JSON to the converted object, or to the reason why the conversion
    /// failed.
    conversions: HashMap<(String, String), Result<Arc<Json>, String>>,
    missing_conversions: Vec<MissingConversion>,
    /// The error of the first failed conversion that an attempt needed.
    conversion_error: Option<String>,
    uid: Option<String>,
    now: Option<Timestamp>,
    generated_names: Vec<String>,
}

impl WebhookCalls {
    /// Returns the response to a webhook call, or records the call and returns `None` if there is no response yet.
    pub fn find_answer(&self, call: WebhookCall) -> Option<WebhookAnswer> {
        let mut calls = self.0.lock();
        if let Some((answer, is_used)) = calls.answers.get_mut(&call) {
            *is_used = true;
            return Some(answer.clone());
        }
        calls.missing_calls.push(call);
        None
    }

    /// Takes the webhook calls whose responses were missing in the last attempt. Also forgets responses that no attempt
    /// has used since the previous call of this method. The reviews of such responses contain an old state of the
    /// object, or an object that the request has already processed.
    pub fn take_missing_calls(&self) -> Vec<WebhookCall> {
        let mut calls = self.0.lock();
        calls.answers.retain(|_, (_, is_used)| std::mem::take(is_used));
        std::mem::take(&mut calls.missing_calls)
    }

    pub fn add_answer(&self, call: WebhookCall, answer: WebhookAnswer) {
        self.0.lock().answers.insert(call, (answer, false));
    }

    /// Returns the webhook's conversion of the object to the version `to`. The converted object does not contain the
    /// original metadata. Returns `None` if the object has not been converted yet, and the reason if the conversion
    /// failed. If the result is `None`, the attempt must not write anything.
    pub fn find_conversion(
        &self,
        webhook: &Arc<ConversionWebhook>,
        object: &Json,
        from: &str,
        to: &str,
    ) -> Option<Result<Arc<Json>, String>> {
        let mut sent = object.clone();
        sent.set("apiVersion", from);
        sent.set("kind", webhook.kind.as_str());
        if let Some(metadata) = sent.get_mut("metadata") {
            metadata.unset("resourceVersion");
        }
        let mut calls = self.0.lock();
        match calls.conversions.get(&(to.to_owned(), sent.to_string())) {
            Some(result) => Some(result.clone()),
            None => {
                let (webhook, from, to) = (webhook.clone(), from.to_owned(), to.to_owned());
                calls.missing_conversions.push(MissingConversion { webhook, from, to, object: Arc::new(sent) });
                None
            }
        }
    }

    /// Makes the request fail because a conversion that it needs has failed. Keeps an earlier error.
    pub fn fail_conversion(&self, why: String) {
        self.0.lock().conversion_error.get_or_insert(why);
    }

    /// Takes the conversions that were missing in the last attempt.
    pub fn take_missing_conversions(&self) -> Vec<MissingConversion> {
        std::mem::take(&mut self.0.lock().missing_conversions)
    }

    pub fn add_conversion(&self, conversion: &MissingConversion, result: Result<Arc<Json>, String>) {
        self.0.lock().conversions.insert((conversion.to.clone(), conversion.object.to_string()), result);
    }

    /// Returns `true` if the last attempt needed a webhook's response or a conversion that is not available yet.
    pub fn has_missing(&self) -> bool {
        let calls = self.0.lock();
        !calls.missing_calls.is_empty() || !calls.missing_conversions.is_empty()
    }

    /// Returns `true` if the attempt needed a conversion that is missing or has failed.
    pub fn lacks_conversion(&self) -> bool {
        let calls = self.0.lock();
        calls.conversion_error.is_some() || !calls.missing_conversions.is_empty()
    }

    /// Takes the error of the first failed conversion that an attempt needed.
    pub fn take_conversion_error(&self) -> Option<String> {
        self.0.lock().conversion_error.take()
    }

    /// Forgets all conversions, which a watch does after each event.
    pub fn forget_conversions(&self) {
        let mut calls = self.0.lock();
        (calls.conversions, calls.missing_conversions, calls.conversion_error) = Default::default();
    }

    /// Returns the uid for a new object, which is the same for all attempts to process the request.
    pub fn uid(&self, generate: impl FnOnce() -> String) -> String {
        self.0.lock().uid.get_or_insert_with(generate).clone()
    }

    /// Returns the time of the first attempt to process the request.
    pub fn now(&self, read: impl FnOnce() -> Timestamp) -> Timestamp {
        *self.0.lock().now.get_or_insert_with(read)
    }

    /// Returns the generated name with index `at`, which is the same for all attempts to process the request.
    pub fn generated_name(&self, at: usize, generate: impl FnOnce() -> String) -> String {
        let mut calls = self.0.lock();
        if calls.generated_names.len() <= at {
            calls.generated_names.push(generate());
        }
        calls.generated_names[calls.generated_names.len().min(at + 1) - 1].clone()
    }
}

// The `Debug` output omits the reviews, because they can contain a Secret.
pintle_meta::debug_struct!(WebhookCalls { .. });

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
        assert!(calls.find_answer(call("a")).is_none());
        let missing = calls.take_missing_calls();
        assert_eq!(missing.len(), 1);
        calls.add_answer(missing[0].clone(), WebhookAnswer { uid: "u".into(), body: Ok("b".into()) });
        assert!(calls.find_answer(call("a")).is_some_and(|answer| answer.uid == "u"));
        assert!(calls.find_answer(call("b")).is_none(), "another review has another answer");
        assert_eq!(calls.take_missing_calls().len(), 1);
    }

    /// A deletecollection request in this test calls two webhooks for each object, one after the other.
    #[test]
    fn answers_of_earlier_attempts_are_forgotten() {
        let calls = WebhookCalls::default();
        for object in 0..9 {
            let reviews = ["mutating", "validating"].map(|webhook| call(&format!("{webhook} {object}")));
            let attempt = || reviews.iter().all(|review| calls.find_answer(review.clone()).is_some());
            let mut sent = 0;
            while !attempt() {
                for call in calls.take_missing_calls() {
                    sent += 1;
                    calls.add_answer(call, WebhookAnswer { uid: String::new(), body: Ok("b".into()) });
                }
                assert!(calls.0.lock().answers.len() <= 2 * reviews.len(), "after {object} objects");
            }
            assert_eq!(sent, reviews.len(), "each webhook is called once");
        }
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

//! Calls admission and conversion webhooks between two attempts to process a request, so that the next attempt can use
//! their responses.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use pintle_admission::webhook::{conversion_review, read_conversion_response, with_uid};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Requester;
#[cfg(test)]
use pintle_json::json;
use pintle_kinds::Kind;
use pintle_serving::offload;
use pintle_serving::webhook_client::WebhookTarget;
use tokio::time::Instant;

use super::Registry;
use super::list::ListReply;
use super::served::Served;
use pintle_apimachinery::request::webhook_calls::{
    MissingConversion, WebhookAnswer, WebhookCall, WebhookCalls, WebhookClient,
};

/// The maximum number of attempts to process a request. Each attempt may need the response of one more webhook.
const MAX_ROUNDS: usize = 256;

/// The total size of the objects, in bytes, at which a conversion review is sent. A review exceeds this size by at most
/// one object.
const LARGEST_BATCH: usize = 1 << 20;

/// The number of objects in a conversion review.
#[derive(Clone, Copy)]
enum Reviews {
    /// All objects with the same source and target versions, as kube-apiserver converts a list.
    Batch,
    /// One object. In a write, the conversion of one object can fail although the write needs only the others.
    One,
}

impl Registry {
    /// If any admission webhooks exist, allows the request to call them, and returns `true`.
    pub(crate) fn prepare_webhooks(&self, by: &Requester) -> bool {
        // A plan does not call webhooks, because the webhooks belong to the live cluster.
        let has_webhooks = !self.webhooks.is_empty(&self.db) && !self.db.is_mirror();
        if has_webhooks {
            by.allow_webhooks();
        }
        has_webhooks
    }

    /// Returns the name of the webhook's Service if its address is unknown. The server does not call a webhook with an
    /// unknown address.
    pub(crate) fn unknown_service<'a>(&self, client: &'a WebhookClient) -> Option<&'a str> {
        let service = client.service.as_str();
        let is_known = || self.config.services.contains_key(service) || self.local_webhooks.contains(&client.url);
        (!service.is_empty() && !is_known()).then_some(service)
    }

    /// If the kind has a conversion webhook, returns a copy of the kind that records the required conversions in `by`. Returns
    /// a warning if the address of the webhook is unknown.
    pub(crate) fn with_conversions(&self, kind: &Arc<Kind>, by: &Requester) -> Result<Arc<Kind>, String> {
        let client = kind.strategy.conversion_webhook();
        if let Some(service) = client.and_then(|client| self.unknown_service(client)) {
            let what = format!("the conversion webhook of {} was not called", kind.resource());
            return Err(format!("{what}: the Service {service} has no address in ApiServerConfig::services"));
        }
        // A plan does not call webhooks, because the webhooks belong to the live cluster.
        let is_wanted = client.is_some() && !self.db.is_mirror();
        let strategy = is_wanted.then(|| kind.strategy.with_conversions(by.allow_webhooks())).flatten();
        Ok(strategy.map_or_else(|| kind.clone(), |strategy| Arc::new(Kind { strategy, ..Kind::clone(kind) })))
    }

    /// Calls `attempt` until no webhook responses are missing. Between two attempts, calls the webhooks whose responses
    /// are missing. Admission webhooks that are registered between two attempts apply to the next attempt.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the calls are cancelled, and no further attempt starts.
    pub(crate) async fn with_webhooks<T>(&self, by: &Requester, mut attempt: impl FnMut() -> Outcome<T>) -> Outcome<T> {
        for _ in 0..MAX_ROUNDS {
            self.prepare_webhooks(by);
            let notes = by.notes_before_attempt();
            let failure = match attempt() {
                Ok(result) => return Ok(result),
                Err(failure) => failure,
            };
            if !self.settle_reviews(by, Reviews::One).await? {
                return Err(failure);
            }
            // Discard the warnings and annotations of this attempt, which may have processed unconverted objects. The
            // next attempt adds its own warnings and annotations.
            by.restore_notes(notes);
        }
        Err(too_many_rounds())
    }

    /// Calls `read`, which writes nothing, until no webhook conversions are missing. Between two calls of `read`, calls
    /// the webhooks whose conversions are missing.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the calls are cancelled.
    pub(crate) async fn read_with_webhooks<T>(
        &self,
        by: &Requester,
        mut read: impl FnMut() -> Outcome<T>,
    ) -> Outcome<T> {
        for _ in 0..MAX_ROUNDS {
            let outcome = read();
            if !self.settle(by).await? {
                return outcome;
            }
        }
        Err(too_many_rounds())
    }

    /// Returns the object of a response in the version of `kind`. If the kind has a conversion webhook, calls the
    /// webhook.
    pub(crate) async fn settled(&self, kind: &Kind, object: Served, by: &Requester) -> Outcome<Served> {
        match object.unconverted() {
            None => Ok(object),
            Some(stored) => self.read_with_webhooks(by, || Ok(Served::stored(kind, &stored))).await,
        }
    }

    /// If the kind has a conversion webhook, converts the objects of a list. After this call, encoding the list
    /// requires no webhook calls.
    pub(crate) async fn settle_list(&self, kind: &Kind, list: &ListReply, by: &Requester) -> Outcome<()> {
        if by.webhooks().is_none() || kind.strategy.conversion().is_none() {
            return Ok(());
        }
        let (mut objects, mut batch) = (list.objects.clone(), 0);
        while let Some(found) = objects.scan_next() {
            tokio::task::yield_now().await;
            if let Some(stored) = found.filter(|stored| kind.strategy.needs_webhook(stored.version())) {
                drop(kind.convert_if_needed(&stored));
                batch += stored.weight();
            }
            if batch > LARGEST_BATCH {
                self.settle(by).await?;
                batch = 0;
            }
        }
        self.settle(by).await?;
        // At this point, each conversion has a result, which can be a failure.
        let mut objects = list.objects.clone();
        while let Some(found) = objects.scan_next() {
            tokio::task::yield_now().await;
            if let Some(stored) = found.filter(|stored| kind.strategy.needs_webhook(stored.version())) {
                drop(kind.convert_if_needed(&stored));
            }
        }
        by.check_conversions()
    }

    /// Calls the webhooks whose responses were missing in the last attempt. Returns `true` if any response was missing.
    /// Returns an error if a conversion that the attempt needed has failed.
    pub(crate) async fn settle(&self, by: &Requester) -> Outcome<bool> {
        self.settle_reviews(by, Reviews::Batch).await
    }

    async fn settle_reviews(&self, by: &Requester, reviews: Reviews) -> Outcome<bool> {
        match by.check_conversions() {
            Ok(()) => Ok(false),
            Err(failure) if failure.is_waiting() => self.call_missing(by, reviews).await.map(|()| true),
            Err(failure) => Err(failure),
        }
    }

    async fn call_missing(&self, by: &Requester, reviews: Reviews) -> Outcome<()> {
        let Some(calls) = by.webhooks() else { return Ok(()) };
        by.check_time()?;
        let (missing, wanted) = (calls.take_missing_calls(), calls.take_missing_conversions());
        by.without_permit(async {
            if !wanted.is_empty() {
                // Drop the missing calls, because they contain unconverted objects. The next attempt calls these
                // webhooks with converted objects.
                drop(missing);
                return self.convert(calls, wanted, reviews).await;
            }
            let answers = missing.into_iter().map(async |call| (call.clone(), self.call(call, by.deadline).await));
            for (call, answer) in join_all(answers).await {
                calls.add_answer(call, answer);
            }
        })
        .await;
        // The next attempt can be as expensive as the first attempt, so offload it.
        offload::work_on(offload::ALWAYS).await;
        Ok(())
    }

    /// Requests conversions from the webhooks.
    async fn convert(&self, calls: &WebhookCalls, mut wanted: Vec<MissingConversion>, reviews: Reviews) {
        let (mut seen, mut groups) = (HashSet::new(), Vec::new());
        wanted.retain(|wanted| seen.insert((wanted.to.clone(), wanted.object.to_string())));
        while let Some(first) = wanted.first().cloned() {
            let is_in_group = |other: &MissingConversion| match reviews {
                Reviews::Batch => {
                    other.webhook == first.webhook && (&other.from, &other.to) == (&first.from, &first.to)
                }
                Reviews::One => other.to == first.to && Arc::ptr_eq(&other.object, &first.object),
            };
            let (group, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(is_in_group);
            wanted = others;
            groups.push(group);
        }
        join_all(groups.iter().map(|group| self.convert_group(calls, group))).await;
    }

    /// Requests the conversions of a group in a single review.
    async fn convert_group(&self, calls: &WebhookCalls, group: &[MissingConversion]) {
        let Some(first) = group.first() else { return };
        let objects: Vec<_> = group.iter().map(|wanted| &*wanted.object).collect();
        let review = conversion_review(&first.webhook, &first.to, objects.iter().copied());
        let call = WebhookCall { id: String::new(), client: first.webhook.client.clone(), review };
        // As in kube-apiserver, the timeout of a conversion does not depend on the timeout of the request.
        let answer = self.call(call, None).await;
        let versions = (first.from.as_str(), first.to.as_str());
        match read_conversion_response(&first.webhook, &answer.uid, &answer.body, versions, &objects) {
            Ok(converted) => group
                .iter()
                .zip(converted)
                .for_each(|(wanted, object)| calls.add_conversion(wanted, Ok(Arc::new(object)))),
            Err(why) => group.iter().for_each(|wanted| calls.add_conversion(wanted, Err(why.clone()))),
        }
    }

    async fn call(&self, call: WebhookCall, deadline: Option<Instant>) -> WebhookAnswer {
        let own = Duration::from_secs(call.client.timeout_seconds.into());
        // As in kube-apiserver, the remaining time of the request is rounded up to whole seconds.
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let rest = rest.map(|rest| Duration::from_millis(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX)));
        let rest = rest.map(|rest| Duration::from_secs(rest.as_secs() + u64::from(rest.subsec_nanos() > 0)));
        let timeout = rest.map_or(own, |rest| own.min(rest));
        let uid = self.uuid();
        let address = self.config.services.get(&call.client.service).copied();
        let review = with_uid(&call.review, &uid);
        let WebhookClient { url, ca_bundle, .. } = &*call.client;
        let target = WebhookTarget { url: url.clone(), ca_bundle: ca_bundle.clone() };
        WebhookAnswer { uid, body: self.local_webhooks.send(target, review, address, timeout).await }
    }
}

/// Registers a validating webhook for all requests. Calls of the webhook fail, because its URL is invalid.
#[cfg(test)]
pub(super) fn register_failing_webhook(registry: &Registry) {
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "scope": "*"});
    let webhook = json!({
        "name": "maps.example.com", "clientConfig": {"url": "http://localhost/"}, "rules": [rule],
        "matchPolicy": "Equivalent", "failurePolicy": "Fail", "namespaceSelector": {}, "objectSelector": {},
        "admissionReviewVersions": ["v1"],
    });
    let configuration = json!({"metadata": {"name": "maps"}, "webhooks": [webhook]});
    let resource = "validatingwebhookconfigurations.admissionregistration.k8s.io".into();
    registry.db.put(&resource, "maps", pintle_storage::Expect::Absent, configuration).expect("absent");
}

fn too_many_rounds() -> Failure {
    Failure::internal(format!("the object differed in {MAX_ROUNDS} attempts, so each attempt called further webhooks"))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use pintle_serving::body_budget::LARGEST_BODY;

    use super::*;

    #[tokio::test]
    async fn each_attempt_has_the_permit_for_the_body() {
        let (registry, by) = (Registry::new(crate::config::ApiServerConfig::default(), None), Requester::default());
        by.keep_permit(registry.body_budget.turn(LARGEST_BODY).await);
        let client = Arc::new(WebhookClient::read(&json!({"clientConfig": {"url": "http://localhost/"}})));
        let call = WebhookCall { id: String::new(), client, review: String::new() };
        let (mut attempts, calls) = (0, by.allow_webhooks());
        let attempt = || {
            attempts += 1;
            assert!(registry.body_budget.turn(LARGEST_BODY).now_or_never().is_none(), "attempt {attempts}");
            calls.find_answer(call.clone()).ok_or_else(Failure::waiting)
        };
        assert!(registry.with_webhooks(&by, attempt).await.is_ok_and(|answer| answer.body.is_err()));
        assert_eq!(attempts, 2);
    }
}

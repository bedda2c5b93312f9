//! An index of the stored webhook configurations, which is updated when the store changes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use pintle_json::{Json, json};

use super::compiled::{Compiled, Index};
use pintle_admission::policy::CompiledPolicy;
use pintle_admission::webhook::ReviewVersion;
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::webhook_calls::WebhookClient;
use pintle_storage::{Db, Stored};

const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";

/// The webhook configurations of one store.
#[derive(Debug, Default)]
pub struct Webhooks(Compiled<WebhookIndex>);

impl Webhooks {
    /// Returns `true` if the store contains no webhooks. All calls must pass the same `db`.
    pub fn is_empty(&self, db: &Db) -> bool {
        self.0.query(db, |index| index.validating.webhooks().is_empty() && index.mutating.webhooks().is_empty())
    }

    /// Returns the validating webhooks, sorted by the names of their configurations. All calls must pass the same
    /// `db`.
    pub fn validating(&self, db: &Db) -> Arc<[Arc<AdmissionWebhook>]> {
        self.0.query(db, |index| index.validating.webhooks())
    }

    /// Returns the mutating webhooks, sorted by the names of their configurations. All calls must pass the same `db`.
    pub fn mutating(&self, db: &Db) -> Arc<[Arc<AdmissionWebhook>]> {
        self.0.query(db, |index| index.mutating.webhooks())
    }
}

/// A webhook of a stored configuration.
#[derive(Debug)]
pub struct AdmissionWebhook {
    /// The name of the configuration, and the index of the webhook in the configuration.
    pub id: (String, usize),
    pub name: String,
    /// The rules and selectors, in the format of a policy's `matchConstraints`. If the webhook has no rules, this is
    /// `None`, and the webhook matches no request.
    pub constraints: Option<Json>,
    /// The match conditions and the failure policy, in the format of a policy.
    policy: Json,
    compiled: OnceLock<CompiledPolicy>,
    pub client: Arc<WebhookClient>,
    pub review_version: ReviewVersion,
    pub is_reinvocable: bool,
}

impl AdmissionWebhook {
    /// Creates a webhook. Returns `None` if the server supports none of its review versions.
    fn new(configuration: &str, at: usize, webhook: &Json) -> Option<Self> {
        let constraints = json!({
            "namespaceSelector": webhook["namespaceSelector"],
            "objectSelector": webhook["objectSelector"],
            "matchPolicy": webhook["matchPolicy"],
            "resourceRules": webhook["rules"],
        });
        let has_rules = webhook.list("/rules").next().is_some();
        let conditions = json!({
            "matchConditions": webhook["matchConditions"],
            "failurePolicy": webhook["failurePolicy"],
        });
        Some(Self {
            id: (configuration.to_owned(), at),
            name: webhook.text("/name").to_owned(),
            constraints: has_rules.then_some(constraints),
            policy: conditions,
            compiled: OnceLock::new(),
            client: Arc::new(WebhookClient::read(webhook)),
            review_version: ReviewVersion::first_supported(webhook.texts("/admissionReviewVersions"))?,
            is_reinvocable: webhook.text("/reinvocationPolicy") == "IfNeeded",
        })
    }

    /// Returns the compiled match conditions and failure policy. The first call compiles the conditions, which can take
    /// long. The index does not compile them, because other requests would then wait for the lock of the index.
    pub fn conditions(&self) -> &CompiledPolicy {
        self.compiled.get_or_init(|| CompiledPolicy::new(&self.policy))
    }
}

#[derive(Debug, Default)]
struct WebhookIndex {
    validating: Configurations,
    mutating: Configurations,
}

#[derive(Debug, Default)]
struct Configurations {
    by_name: BTreeMap<Box<str>, (Json, Vec<Arc<AdmissionWebhook>>)>,
    /// The webhooks of all configurations. The list of webhooks is created on the first use after a change.
    webhooks: OnceLock<Arc<[Arc<AdmissionWebhook>]>>,
}

impl Configurations {
    fn webhooks(&self) -> Arc<[Arc<AdmissionWebhook>]> {
        let collect = || self.by_name.values().flat_map(|(_, webhooks)| webhooks).cloned().collect();
        self.webhooks.get_or_init(collect).clone()
    }
}

impl WebhookIndex {
    fn configurations(&mut self, resource: &str) -> &mut Configurations {
        if resource == VALIDATING { &mut self.validating } else { &mut self.mutating }
    }
}

impl Index for WebhookIndex {
    const RESOURCES: &'static [&'static str] = &[VALIDATING, MUTATING];

    fn put(&mut self, resource: &str, key: &str, stored: &Stored) {
        let configurations = self.configurations(resource);
        let object = stored.decode();
        let webhooks = &object["webhooks"];
        // Keep the compiled match conditions if only the metadata has changed.
        if configurations.by_name.get(key).is_some_and(|(known, _)| known == webhooks) {
            return;
        }
        let name = metadata::name(&object);
        let listed = object.list("/webhooks").enumerate();
        let listed =
            listed.filter_map(|(at, webhook)| AdmissionWebhook::new(name, at, webhook).map(Arc::new)).collect();
        configurations.by_name.insert(key.into(), (webhooks.clone(), listed));
        configurations.webhooks.take();
    }

    fn remove(&mut self, resource: &str, key: &str) {
        let configurations = self.configurations(resource);
        configurations.by_name.remove(key);
        configurations.webhooks.take();
    }
}

#[cfg(test)]
mod tests {
    use pintle_storage::Expect;

    use super::*;
    use crate::compiled::tests::db;

    fn put(db: &Db, name: &str, webhooks: Json) {
        let expect = db.get(VALIDATING, name).map_or(Expect::Absent, |there| Expect::At(there.revision()));
        let object = json!({"metadata": {"name": name}, "webhooks": webhooks});
        db.put(&VALIDATING.into(), name, expect, object).expect("no concurrent writer");
    }

    fn webhook(name: &str) -> Json {
        let condition = json!({"name": "c", "expression": "true"});
        json!({"name": name, "admissionReviewVersions": ["v1"], "matchConditions": [condition]})
    }

    #[test]
    fn conditions_are_compiled_on_first_use() {
        let (db, webhooks) = (db(), Webhooks::default());
        put(&db, "a", json!([webhook("x")]));
        let found = webhooks.validating(&db)[0].clone();
        assert!(found.compiled.get().is_none());
        let compiled: *const CompiledPolicy = found.conditions();
        put(&db, "b", json!([webhook("y")]));
        assert!(std::ptr::eq(webhooks.validating(&db)[0].conditions(), compiled), "other webhooks stay compiled");
    }

    #[test]
    fn webhooks_follow_their_configurations() {
        let (db, webhooks) = (db(), Webhooks::default());
        let names = || webhooks.validating(&db).iter().map(|webhook| webhook.name.clone()).collect::<Vec<_>>();
        put(&db, "b", json!([webhook("x"), webhook("y")]));
        put(&db, "a", json!([webhook("z")]));
        assert_eq!(names(), ["z", "x", "y"]);
        put(&db, "b", json!([]));
        assert_eq!(names(), ["z"]);
        let at = db.get(VALIDATING, "a").expect("a configuration").revision();
        db.remove(&VALIDATING.into(), "a", at).expect("no concurrent writer");
        assert!(names().is_empty() && webhooks.is_empty(&db));
    }
}

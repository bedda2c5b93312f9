//! An index of the stored webhook configurations, which is updated when the store changes.

use std::collections::BTreeMap;
use std::sync::Arc;

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
        self.0.query(db, |index| index.validating.webhooks.is_empty() && index.mutating.webhooks.is_empty())
    }

    /// Returns the validating webhooks, sorted by the names of their configurations. All calls must pass the same
    /// `db`.
    pub fn validating(&self, db: &Db) -> Arc<[Arc<AdmissionWebhook>]> {
        self.0.query(db, |index| index.validating.webhooks.clone())
    }

    /// Returns the mutating webhooks, sorted by the names of their configurations. All calls must pass the same `db`.
    pub fn mutating(&self, db: &Db) -> Arc<[Arc<AdmissionWebhook>]> {
        self.0.query(db, |index| index.mutating.webhooks.clone())
    }
}

/// A webhook of a stored configuration.
#[derive(Debug)]
pub struct AdmissionWebhook {
    /// The name of the configuration, and the index of the webhook in the configuration.
    pub id: (String, usize),
    pub name: String,
    /// The rules and selectors, in the format of a policy's `matchConstraints`. The constraints are `None` if the
    /// webhook has no rules and therefore matches no request.
    pub constraints: Option<Json>,
    /// The match conditions and the failure policy.
    pub conditions: CompiledPolicy,
    pub client: Arc<WebhookClient>,
    pub review_version: ReviewVersion,
    pub is_reinvocable: bool,
}

impl AdmissionWebhook {
    /// Creates a webhook, or returns `None` if the server supports none of its review versions.
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
            conditions: CompiledPolicy::new(&conditions),
            client: Arc::new(WebhookClient::read(webhook)),
            review_version: ReviewVersion::first_supported(webhook.texts("/admissionReviewVersions"))?,
            is_reinvocable: webhook.text("/reinvocationPolicy") == "IfNeeded",
        })
    }
}

#[derive(Debug, Default)]
struct WebhookIndex {
    validating: Configurations,
    mutating: Configurations,
}

#[derive(Debug)]
struct Configurations {
    by_name: BTreeMap<Box<str>, (Json, Vec<Arc<AdmissionWebhook>>)>,
    webhooks: Arc<[Arc<AdmissionWebhook>]>,
}

impl Default for Configurations {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), webhooks: Arc::from([]) }
    }
}

impl Configurations {
    fn collect(&mut self) {
        self.webhooks = self.by_name.values().flat_map(|(_, webhooks)| webhooks).cloned().collect();
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
        // Keep the compiled conditions if only the metadata has changed.
        if configurations.by_name.get(key).is_some_and(|(known, _)| known == webhooks) {
            return;
        }
        let name = metadata::name(&object);
        let listed = object.list("/webhooks").enumerate();
        let listed =
            listed.filter_map(|(at, webhook)| AdmissionWebhook::new(name, at, webhook).map(Arc::new)).collect();
        configurations.by_name.insert(key.into(), (webhooks.clone(), listed));
        configurations.collect();
    }

    fn remove(&mut self, resource: &str, key: &str) {
        let configurations = self.configurations(resource);
        configurations.by_name.remove(key);
        configurations.collect();
    }
}

//! Creates the objects that register the webhooks.

use pintle_crd::CustomResourceDefinition;
use pintle_meta::{ObjectMeta, Scope};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure_policy::FailurePolicy;
use crate::webhook::{Webhook, WebhookType};
use crate::webhooks::{Route, Webhooks};

macro_rules! configurations {
    ($($(#[$doc:meta])* $name:ident, $plural:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// The YAML of this configuration contains `apiVersion` and `kind`, so `kubectl apply` accepts it.
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
        #[serde(tag = "kind", rename_all = "camelCase")]
        pub struct $name {
            #[serde(default = "api_version")]
            api_version: String,
            /// The metadata of the configuration.
            pub metadata: ObjectMeta,
            /// The webhooks of the configuration, as JSON.
            #[serde(default)]
            pub webhooks: Vec<Value>,
        }

        impl $name {
            fn new(name: &str, webhooks: Vec<Value>) -> Self {
                let metadata = ObjectMeta::new("", name);
                Self { api_version: api_version(), metadata, webhooks }
            }
        }

        pintle_meta::resource!($name, "admissionregistration.k8s.io/v1", stringify!($name), $plural, Cluster);
    )*};
}

configurations! {
    /// An object that registers validating webhooks.
    ValidatingWebhookConfiguration, "validatingwebhookconfigurations";
    /// An object that registers mutating webhooks.
    MutatingWebhookConfiguration, "mutatingwebhookconfigurations";
}

fn api_version() -> String {
    "admissionregistration.k8s.io/v1".into()
}

/// Methods that create the objects for registering the webhooks. The methods return no objects if the webhooks have
/// no [endpoint](Webhooks::endpoint).
impl Webhooks {
    /// Returns `true` if the webhooks have an [endpoint](Webhooks::endpoint).
    pub fn has_endpoint(&self) -> bool {
        self.endpoint.is_some()
    }

    /// Returns the configuration that registers the validating webhooks, if there are any. `authority` contains the
    /// PEM certificates of the authorities that signed the server's certificate. If `authority` is empty, the API
    /// server uses the root certificates of its system.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::ObjectMeta;
    /// use pintle_webhook::{Admission, Denial, Endpoint, Webhook, Webhooks};
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize)]
    /// struct Website {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// async fn check(_: Admission<Website>) -> Result<(), Denial> {
    ///     Ok(())
    /// }
    ///
    /// let endpoint = Endpoint::service("website-system", "website-controller");
    /// let webhooks = Webhooks::new().add(Webhook::validate(check)).endpoint(endpoint);
    /// let configuration = webhooks.validating_configuration("website-controller", b"").unwrap();
    /// assert_eq!(configuration.webhooks[0]["rules"][0]["resources"][0], "websites");
    /// ```
    pub fn validating_configuration(&self, name: &str, ca_bundle: &[u8]) -> Option<ValidatingWebhookConfiguration> {
        let webhooks = self.entries(WebhookType::Validating, ca_bundle);
        (!webhooks.is_empty()).then(|| ValidatingWebhookConfiguration::new(name, webhooks))
    }

    /// Returns the configuration that registers the mutating webhooks, if there are any. See
    /// [`validating_configuration`](Self::validating_configuration) for the arguments.
    pub fn mutating_configuration(&self, name: &str, ca_bundle: &[u8]) -> Option<MutatingWebhookConfiguration> {
        let webhooks = self.entries(WebhookType::Mutating, ca_bundle);
        (!webhooks.is_empty()).then(|| MutatingWebhookConfiguration::new(name, webhooks))
    }

    /// Adds the conversion webhook of the kind to `definition`, and returns `true` if the kind has a conversion
    /// webhook.
    pub fn add_conversion(&self, definition: &mut CustomResourceDefinition, ca_bundle: &[u8]) -> bool {
        let Some(endpoint) = &self.endpoint else { return false };
        let conversion = self.routes.iter().find_map(|(path, route)| match &**route {
            Route::Conversion(conversion) => {
                (conversion.resource.group_resource().to_string() == definition.metadata.name).then_some(path)
            }
            Route::Admission(_) => None,
        });
        let Some(path) = conversion else { return false };
        let client = endpoint.client_config(path, ca_bundle);
        definition.spec["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        });
        true
    }

    fn entries(&self, webhook_type: WebhookType, ca_bundle: &[u8]) -> Vec<Value> {
        let Some(endpoint) = &self.endpoint else { return Vec::new() };
        let webhooks = self.routes.iter().filter_map(|(path, route)| match &**route {
            Route::Admission(webhook) if webhook.webhook_type == webhook_type => Some((path, webhook)),
            _ => None,
        });
        webhooks.map(|(path, webhook)| entry(webhook, endpoint.client_config(path, ca_bundle))).collect()
    }
}

/// Returns the entry for a webhook in its configuration object. The entry contains fields even with their default
/// values, so that server-side apply owns them.
fn entry(webhook: &Webhook, client_config: Value) -> Value {
    let resource = &webhook.resource;
    let target = match &webhook.subresource {
        Some(subresource) => format!("{}/{subresource}", resource.plural),
        None => resource.plural.clone(),
    };
    let operations: Vec<_> = webhook.operations.iter().map(|operation| operation.as_str()).collect();
    let conditions: Vec<_> =
        webhook.conditions.iter().map(|(name, cel)| json!({"name": name, "expression": cel})).collect();
    let mut entry = json!({
        "name": webhook.full_name(),
        "clientConfig": client_config,
        "rules": [{
            "apiGroups": [resource.group_version.group],
            "apiVersions": [resource.group_version.version],
            "resources": [target],
            "operations": operations,
            "scope": if resource.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        }],
        "failurePolicy": if webhook.failure_policy == FailurePolicy::Fail { "Fail" } else { "Ignore" },
        "matchPolicy": "Equivalent",
        "sideEffects": if webhook.has_side_effects { "NoneOnDryRun" } else { "None" },
        "timeoutSeconds": webhook.timeout.as_millis().div_ceil(1000) as u64,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": webhook.namespaces.clone().unwrap_or_default(),
        "objectSelector": webhook.objects.clone().unwrap_or_default(),
    });
    if webhook.is_mutating() {
        entry["reinvocationPolicy"] = if webhook.is_reinvoked { "IfNeeded" } else { "Never" }.into();
    }
    if !conditions.is_empty() {
        entry["matchConditions"] = conditions.into();
    }
    entry
}

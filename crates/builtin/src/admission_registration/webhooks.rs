//! The `ValidatingWebhookConfiguration` and `MutatingWebhookConfiguration` kinds in `admissionregistration.k8s.io/v1`.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;

use super::{static_suffix_warning, webhook_errors};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Webhooks {
    pub(crate) mutating: bool,
}

impl Strategy for Webhooks {
    fn defaults(&self, object: &mut Json) {
        for webhook in object.items_mut("webhooks") {
            for (key, value) in [("failurePolicy", "Fail"), ("matchPolicy", "Equivalent")] {
                webhook.set_default(key, value);
            }
            webhook.member("namespaceSelector");
            webhook.member("objectSelector");
            webhook.set_default("timeoutSeconds", 10);
            if self.mutating {
                webhook.set_default("reinvocationPolicy", "Never");
            }
            if let Some(service) = webhook.get_mut("clientConfig").and_then(|client| client.get_mut("service")) {
                service.set_default("port", 443);
            }
            webhook.items_mut("rules").for_each(|rule| rule.set_default("scope", "*"));
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let duplicates = duplicates(object.list("/webhooks").map(|webhook| webhook.text("/name")));
        let all = Check::of(object).each("webhooks", |webhook, at| {
            let name = webhook.object().text("/name");
            let is_duplicate = duplicates[at] && !name.is_empty();
            webhook_errors::of(webhook, self.mutating).duplicate_if(is_duplicate, "name", &name.into())
        });
        all.done()
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, part: Subresource) -> Vec<String> {
        static_suffix_warning(object, part)
    }
}

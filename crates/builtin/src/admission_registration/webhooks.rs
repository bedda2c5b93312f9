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

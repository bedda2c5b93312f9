//! The core `ServiceAccount` kind.

mod token_request;

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::post_handler::PostHandler;

use crate::warnings;

pub(crate) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        keep_secret_names(object);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, _: &Json, _: Subresource) {
        keep_secret_names(new);
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        const KEY: &str = "kubernetes.io/enforce-mountable-secrets";
        let had = old.is_some_and(|old| warnings::is_annotated(old, KEY));
        let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
        if warnings::is_annotated(object, KEY) && !had {
            vec![format!("metadata.annotations[{KEY}]: {why}")]
        } else {
            Vec::new()
        }
    }

    fn post_handler(&self, subresource: Subresource) -> Option<&dyn PostHandler> {
        (subresource == Subresource::Token).then_some(&token_request::TokenRequest)
    }
}

fn keep_secret_names(object: &mut Json) {
    for secret in object.items_mut("secrets") {
        *secret = match secret.text("/name") {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}

//! The `RuntimeClass` kind in `node.k8s.io/v1`.

use std::collections::HashSet;

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};

use crate::core::pod::{limit_errors, placing};
use crate::warnings;

pub(crate) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn warnings(&self, object: &Json, _: Option<&Json>, _: Subresource) -> Vec<String> {
        let selector = object["scheduling"]["nodeSelector"].as_object();
        let keys = selector.into_iter().flat_map(|selector| selector.keys());
        keys.filter_map(|key| warnings::node_label(key)).map(|why| format!("scheduling.nodeSelector: {why}")).collect()
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let scheduling = &object["scheduling"];
        let (tolerations, mut seen) = (scheduling.list("/tolerations"), HashSet::new());
        let twice = tolerations.enumerate().filter(|(_, toleration)| {
            let member_text = |member: &str| toleration.text(member).to_owned();
            !seen.insert([member_text("/key"), member_text("/operator"), member_text("/value"), member_text("/effect")])
        });
        let twice =
            twice.map(|(at, toleration)| FieldError::duplicate(format!("scheduling.tolerations[{at}]"), toleration));
        Check::of(object)
            .name("handler", NameRule::Label)
            .required("handler")
            .also(limit_errors(object.at("/overhead/podFixed"), "overhead"))
            .also(placing::node_selector(scheduling, "scheduling"))
            .also(placing::tolerations(scheduling, "scheduling"))
            .also(twice)
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        self.validate_create(new).and(immutable(new, old, &["handler"]))
    }
}

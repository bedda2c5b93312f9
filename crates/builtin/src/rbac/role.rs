//! The `Role` and `ClusterRole` kinds in `rbac.authorization.k8s.io/v1`.

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::selector::structured;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::without_effect::{IMPERSONATION, without_effect};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub(crate) namespaced: bool,
}

impl Strategy for Role {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let gathers = object.has("/aggregationRule");
        let selectors = object.list("/aggregationRule/clusterRoleSelectors").enumerate();
        let selectors = selectors.flat_map(|(at, selector)| {
            let path = format!("aggregationRule.clusterRoleSelectors[{at}]");
            let mut errors = pintle_kinds::label_selector::selector_errors(selector, &path);
            if !errors.is_empty() || structured(selector).is_none() {
                errors.push(FieldError::invalid(path, &Json::Null, "invalid label selector."));
            }
            errors
        });
        Check::of(object)
            .each("rules", |rule, _| {
                let filled = |field: &str| rule.object().get(field).is_some_and(|value| !value.is_empty());
                let of_resources = ["apiGroups", "resources", "resourceNames"].into_iter().any(filled);
                let urls = rule.object().get("nonResourceURLs").filter(|urls| !urls.is_empty()).cloned();
                let rule = rule.required_because("verbs", "verbs must contain at least one value");
                let Some(urls) = urls else {
                    return rule
                        .required_because("apiGroups", "resource rules must supply at least one api group")
                        .required_because("resources", "resource rules must supply at least one resource");
                };
                let refused = |why| FieldError::invalid("nonResourceURLs", &urls, why);
                rule.refuse(self.namespaced, || refused("namespaced rules cannot apply to non-resource URLs"))
                    .refuse(of_resources, || {
                        refused("rules cannot apply to both regular resources and non-resource URLs")
                    })
            })
            .refuse(gathers && object.list("/aggregationRule/clusterRoleSelectors").next().is_none(), || {
                let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                FieldError::required("aggregationRule.clusterRoleSelectors", why)
            })
            .also(selectors)
            .done()
    }

    fn without_effect(&self, object: &Json, _: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
        let is_narrower = |verb: &&str| verb.starts_with("impersonate:") || verb.starts_with("impersonate-on:");
        let (kind, name) = (object.text("/kind"), metadata::name(object));
        // Warn only about the first verb without effect, because a role can contain any number of such verbs.
        let narrower = object.list("/rules").flat_map(|rule| rule.texts("/verbs")).find(is_narrower);
        narrower
            .map(|verb| without_effect(&format!("the verb {verb:?} of {kind} {name:?}"), IMPERSONATION))
            .into_iter()
            .collect()
    }
}

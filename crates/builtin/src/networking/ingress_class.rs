//! The `IngressClass` kind in `networking.k8s.io/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};
use pintle_kinds::table::{Cell, ComputedCells};

use super::ingress::reference;

pub(crate) struct IngressClass;

impl Strategy for IngressClass {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let controller = object.text("/spec/controller");
        let long = controller.len() > 250;
        let check = Check::of(object)
            .refuse(long, || FieldError::too_long("spec.controller", 250))
            .also(controller_errors(controller))
            .inside("spec.parameters", |parameters| {
                let namespaced = parameters.object().text("/scope") == "Namespace";
                let cluster = parameters.object().text("/scope") == "Cluster";
                let named = parameters.object().has("/namespace");
                let parameters = reference(parameters)
                    .known("scope", &["Cluster", "Namespace"])
                    .required_if(namespaced && !named, "namespace", "`parameters.scope` is set to 'Namespace'")
                    .forbidden_if(cluster && named, "namespace", "`parameters.scope` is set to 'Cluster'");
                if namespaced {
                    parameters.inside("namespace", |name| name.whole_is(NameRule::Label))
                } else {
                    parameters
                }
            });
        check.done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        immutable(new, old, &["spec.controller"]).and(self.validate_create(new))
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Parameters", Cell::Computed(parameters))]
    }
}

fn parameters(object: &Json) -> Json {
    let parameter = |key: &str| object.text(&format!("/spec/parameters/{key}"));
    let kind = match parameter("apiGroup") {
        "" => parameter("kind").to_owned(),
        group => format!("{}.{group}", parameter("kind")),
    };
    match parameter("name") {
        "" => "<none>".into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn controller_errors(controller: &str) -> FieldErrors {
    const FIELD: &str = "spec.controller";
    let error = |why: &str| FieldErrors::from([FieldError::invalid_text(FIELD, controller, why)]);
    if controller.is_empty() {
        return FieldErrors::from([FieldError::required(FIELD, "")]);
    }
    let Some((domain, path)) =
        controller.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return error("must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    let mut errors = FieldErrors::default();
    let why = name_errors(NameRule::Subdomain, domain, false);
    errors.extend(why.iter().map(|why| FieldError::invalid_text(FIELD, domain, why)));
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/%-._~!$&'()*+,;=:".contains(&byte);
    let why = "Invalid path (e.g. 'dev', regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    errors.invalid_text_if(!path.bytes().all(plain), FIELD, path, why);
    errors
}

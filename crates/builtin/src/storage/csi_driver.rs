//! The `CSIDriver` kind in `storage.k8s.io/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::{duplicates, metadata_mut};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};

pub(crate) struct CsiDriver;

impl Strategy for CsiDriver {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        drop_scheduling(object);
        // As in kube-apiserver, new objects get no generation. kube-apiserver keeps a generation in the request.
        metadata_mut(object).unset("generation");
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, _: &Json, _: Subresource) {
        drop_scheduling(new);
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut errors = self.validate_create(new);
        // As in kube-apiserver, the error about `attachRequired` has another field name.
        for (key, field) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
            let value = &new["spec"][key];
            if *value != old["spec"][key] {
                errors.push(FieldError::invalid(format!("spec.{field}"), value, "field is immutable"));
            }
        }
        errors
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        const TOKENS: &str = "/spec/tokenRequests";
        let has_tokens = object.list(TOKENS).next().is_some() && !object.has("/spec/serviceAccountTokenInSecrets");
        let unchanged = old.is_some_and(|old| old.at(TOKENS) == object.at(TOKENS));
        let why = "is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume \
                   attributes";
        if has_tokens && !unchanged { vec![format!("spec.serviceAccountTokenInSecrets {why}")] } else { Vec::new() }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let modes = ["Persistent", "Ephemeral"];
        let odd = object.list("/spec/volumeLifecycleModes").filter(|mode| !modes.iter().any(|known| *mode == known));
        let odd: FieldErrors =
            odd.map(|mode| FieldError::unsupported("spec.volumeLifecycleModes", mode, &modes)).collect();
        let duplicates = duplicates(object.list("/spec/tokenRequests").map(|request| request.text("/audience")));
        let tokens = object.has("/spec/serviceAccountTokenInSecrets") && !object.has("/spec/tokenRequests/0");
        let period = object.integer("/spec/nodeAllocatableUpdatePeriodSeconds");
        Check::of(object)
            .known("spec.fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"])
            .each("spec.tokenRequests", |request, at| {
                let audience = request.object().text("/audience");
                if duplicates[at] {
                    return request.duplicate_if(true, "audience", &audience.into());
                }
                request
                    .within("expirationSeconds", 600, i64::MAX, "may not specify a duration less than 10 minutes")
                    .within(
                        "expirationSeconds",
                        i64::MIN,
                        1 << 32,
                        "may not specify a duration larger than 2^32 seconds",
                    )
            })
            .also(odd)
            .refuse(period.is_some_and(|period| period < 10), || {
                let why = "must be greater than or equal to 10 seconds";
                FieldError::invalid("spec.nodeAllocatableUpdatePeriodSeconds", &period.unwrap_or(0).into(), why)
            })
            .refuse(tokens, || {
                let why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
                FieldError::invalid(
                    "spec.serviceAccountTokenInSecrets",
                    &object["spec"]["serviceAccountTokenInSecrets"],
                    why,
                )
            })
            .done()
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("TokenRequests", Cell::Computed(audiences))]
    }
}

fn drop_scheduling(driver: &mut Json) {
    if let Some(spec) = driver.get_mut("spec") {
        spec.unset("preventPodSchedulingIfMissing");
    }
}

fn audiences(driver: &Json) -> Json {
    let audiences: Vec<_> = driver.list("/spec/tokenRequests").map(|request| request.text("/audience")).collect();
    if audiences.is_empty() { "<unset>".into() } else { audiences.join(",").into() }
}

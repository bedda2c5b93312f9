//! The `CSINode` kind in `storage.k8s.io/v1`.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, label_key_faults};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;

use crate::core::pod::volume_plugins::driver_errors;
use std::collections::{HashMap, HashSet};

pub(crate) struct CsiNode;

impl Strategy for CsiNode {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let duplicates = duplicates(object.list("/spec/drivers").map(|driver| driver.text("/name")));
        let all = Check::of(object).each("spec.drivers", |driver, at| {
            let (name, node) = (driver.object().text("/name"), driver.object().text("/nodeID"));
            let field = driver.path("name");
            driver
                .also(driver_errors(name, &field))
                .required("nodeID")
                .invalid_text_if(node.len() > 256, "nodeID", node, "must be 256 characters or less")
                .not_negative(&["allocatable.count"])
                .duplicate_if(duplicates[at], "name", &name.into())
                .also(topology_errors(object, at))
        });
        all.done()
    }

    /// Rejects changes to existing drivers, except to the number of their volumes.
    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut errors = self.validate_create(new);
        let mut drivers = HashMap::<_, Vec<_>>::new();
        new.list("/spec/drivers").for_each(|driver| drivers.entry(driver.text("/name")).or_default().push(driver));
        for before in old.list("/spec/drivers") {
            // The names of stored drivers are unique.
            for driver in drivers.remove(before.text("/name")).into_iter().flatten() {
                if ["nodeID", "topologyKeys"].iter().any(|field| part(driver, field) != part(before, field)) {
                    errors.push(FieldError::invalid("spec.drivers", driver, "field is immutable"));
                }
            }
        }
        errors
    }
}

fn part<'a>(driver: &'a Json, field: &str) -> Option<&'a Json> {
    driver.get(field).filter(|value| !value.is_empty())
}

/// Validates a driver's topology keys. As in kube-apiserver, errors contain the path of the driver instead of the key.
fn topology_errors(node: &Json, at: usize) -> FieldErrors {
    let path = format!("spec.drivers[{at}]");
    let mut seen = HashSet::new();
    let mut errors = FieldErrors::default();
    for key in node.list("/spec/drivers").nth(at).into_iter().flat_map(|driver| driver.texts("/topologyKeys")) {
        errors.required_if(key.is_empty(), &path, "");
        errors.duplicate_if(!seen.insert(key), &path, &key.into());
        errors.extend(label_key_faults(key).iter().map(|why| FieldError::invalid_text(path.as_str(), key, why)));
    }
    errors
}

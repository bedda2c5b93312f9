//! The `StorageClass` kind in `storage.k8s.io/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, label_key_faults, qualified_name_faults};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};

use crate::warnings;
use std::collections::{BTreeSet, HashMap, HashSet};

pub(crate) struct StorageClass;

impl Strategy for StorageClass {
    fn warnings(&self, object: &Json, _: Option<&Json>, _: Subresource) -> Vec<String> {
        let mut found = Vec::new();
        for (at, topology) in object.list("/allowedTopologies").enumerate() {
            for (nth, expression) in topology.list("/matchLabelExpressions").enumerate() {
                let path = format!("allowedTopologies[{at}].matchLabelExpressions[{nth}].key");
                found.extend(warnings::node_label(expression.text("/key")).map(|why| format!("{path}: {why}")));
            }
        }
        found
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        Check::of(object)
            .required("provisioner")
            .also(driver_errors(object, "provisioner"))
            .also(parameter_errors(object))
            .one_of("reclaimPolicy", &["Delete", "Retain"])
            .known("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"])
            .also(topology_errors(object))
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        self.validate_create(new).and(immutable(
            new,
            old,
            &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"],
        ))
    }
}

pub(super) fn driver_errors(object: &Json, field: &str) -> FieldErrors {
    let name = object.text(&format!("/{field}")).to_lowercase();
    let why = if name.is_empty() { Vec::new() } else { qualified_name_faults(&name) };
    why.iter().map(|why| FieldError::invalid_text(field, &name, why)).collect()
}

pub(super) fn parameter_errors(object: &Json) -> FieldErrors {
    const FIELD: &str = "parameters";
    const MOST: usize = 256 << 10;
    let parameters = || object.members("/parameters");
    if parameters().count() > 512 {
        return FieldErrors::from([FieldError::too_long(FIELD, 512)]);
    }
    let size: usize = parameters().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    let nameless = parameters().filter(|(key, _)| key.is_empty());
    let mut errors: FieldErrors =
        nameless.map(|_| FieldError::invalid_text(FIELD, "", "field can not be empty.")).collect();
    if size > MOST {
        errors.push(FieldError::too_long(FIELD, MOST));
    }
    errors
}

/// Validates the topology terms. All terms must be unique, and the keys in each term must also be unique.
fn topology_errors(object: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    // kube-apiserver compares each term with a list that initially contains empty terms, so it reports an empty term as
    // a duplicate.
    let count = object.list("/allowedTopologies").count();
    let mut terms: HashMap<Vec<(String, Vec<String>)>, usize> = HashMap::from([(Vec::new(), count)]);
    for (at, term) in object.list("/allowedTopologies").enumerate() {
        let path = format!("allowedTopologies[{at}].matchLabelExpressions");
        let (mut keys, mut said) = (HashSet::new(), Vec::new());
        for (nth, expression) in term.list("/matchLabelExpressions").enumerate() {
            let (key, path) = (expression.text("/key"), format!("{path}[{nth}]"));
            let mut values: BTreeSet<&str> = BTreeSet::new();
            errors.required_if(expression.list("/values").next().is_none(), format!("{path}.values"), "");
            for (at, value) in expression.texts("/values").enumerate() {
                errors.duplicate_if(!values.insert(value), format!("{path}.values[{at}]"), &value.into());
            }
            let why = label_key_faults(key);
            errors.extend(why.iter().map(|why| FieldError::invalid_text(format!("{path}.key"), key, why)));
            errors.duplicate_if(!keys.insert(key), format!("{path}.key"), &key.into());
            said.push((key.to_owned(), values.into_iter().map(str::to_owned).collect::<Vec<_>>()));
        }
        said.sort();
        let known = terms.entry(said).or_default();
        errors.extend((0..*known).map(|_| FieldError::duplicate(path.as_str(), &"".into())));
        *known += 1;
    }
    errors
}

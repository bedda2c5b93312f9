//! StorageClass.

use crate::kinds::check::{Check, immutable};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{MetadataChecks, Strategy, warnings};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, label_key_faults, qualified_name_faults};
use jiff::Timestamp;
use pintle_json::Json;
use std::collections::{BTreeSet, HashMap, HashSet};

/// `storage.k8s.io/v1` StorageClass.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct StorageClass;

impl Strategy for StorageClass {
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::WholeThenUpdate
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, _: Part) -> Vec<String> {
        let mut found = Vec::new();
        for (at, topology) in object.list("/allowedTopologies").enumerate() {
            for (nth, expression) in topology.list("/matchLabelExpressions").enumerate() {
                let path = format!("allowedTopologies[{at}].matchLabelExpressions[{nth}].key");
                found.extend(warnings::node_label(expression.text("/key")).map(|why| format!("{path}: {why}")));
            }
        }
        found
    }

    fn defaults(&self, object: &mut Json) {
        object.set_default("reclaimPolicy", "Delete");
        object.set_default("volumeBindingMode", "Immediate");
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        Check::of(object)
            .required("provisioner")
            .also(driver_faults(object, "provisioner"))
            .also(parameter_faults(object))
            .one_of("reclaimPolicy", &["Delete", "Retain"])
            .known("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"])
            .also(topology_faults(object))
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Part) -> FieldFaults {
        let mut faults = self.validate_create(new);
        faults.extend(immutable(new, old, &["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]));
        faults
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![
            row.name(),
            row.text("/provisioner"),
            row.text("/reclaimPolicy"),
            row.text("/volumeBindingMode"),
            row.truth("/allowVolumeExpansion"),
            row.age(),
        ]
    }
}

/// Faults of the name of what makes volumes.
pub(super) fn driver_faults(object: &Json, field: &str) -> FieldFaults {
    let name = object.text(&format!("/{field}")).to_lowercase();
    let why = if name.is_empty() { Vec::new() } else { qualified_name_faults(&name) };
    why.iter().map(|why| FieldFault::invalid_text(field, &name, why)).collect()
}

/// The same of what it is told.
pub(super) fn parameter_faults(object: &Json) -> FieldFaults {
    const FIELD: &str = "parameters";
    const MOST: usize = 256 << 10;
    let parameters = || object.members("/parameters");
    if parameters().count() > 512 {
        return FieldFaults::from([FieldFault::too_long(FIELD, 512)]);
    }
    let size: usize = parameters().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    let nameless = parameters().filter(|(key, _)| key.is_empty());
    let mut faults: FieldFaults =
        nameless.map(|_| FieldFault::invalid_text(FIELD, "", "field can not be empty.")).collect();
    if size > MOST {
        faults.push(FieldFault::too_long(FIELD, MOST));
    }
    faults
}

/// Where volumes may be: each term names each label once, and says something that no other does.
fn topology_faults(object: &Json) -> FieldFaults {
    let mut faults = FieldFaults::default();
    // A real server begins with as many empty terms as there are terms, so an empty one repeats each of them.
    let count = object.list("/allowedTopologies").count();
    let mut terms: HashMap<Vec<(String, Vec<String>)>, usize> = HashMap::from([(Vec::new(), count)]);
    for (at, term) in object.list("/allowedTopologies").enumerate() {
        let path = format!("allowedTopologies[{at}].matchLabelExpressions");
        let (mut keys, mut said) = (HashSet::new(), Vec::new());
        for (nth, expression) in term.list("/matchLabelExpressions").enumerate() {
            let (key, path) = (expression.text("/key"), format!("{path}[{nth}]"));
            let mut values: BTreeSet<&str> = BTreeSet::new();
            if expression.list("/values").next().is_none() {
                faults.push(FieldFault::required(format!("{path}.values"), ""));
            }
            for (at, value) in expression.texts("/values").enumerate() {
                if !values.insert(value) {
                    faults.push(FieldFault::duplicate(format!("{path}.values[{at}]"), &value.into()));
                }
            }
            let why = label_key_faults(key);
            faults.extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.key"), key, why)));
            if !keys.insert(key) {
                faults.push(FieldFault::duplicate(format!("{path}.key"), &key.into()));
            }
            said.push((key.to_owned(), values.into_iter().map(str::to_owned).collect::<Vec<_>>()));
        }
        said.sort();
        let known = terms.entry(said).or_default();
        faults.extend((0..*known).map(|_| FieldFault::duplicate(path.as_str(), &"".into())));
        *known += 1;
    }
    faults
}

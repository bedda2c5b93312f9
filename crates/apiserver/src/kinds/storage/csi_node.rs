//! CSINode.

use crate::kinds::Strategy;
use crate::kinds::check::Check;
use crate::kinds::core::pod::volume_plugins::driver_faults;
use crate::kinds::table::{self, Column, Row};
use crate::object::doubles;
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, label_key_faults};
use jiff::Timestamp;
use pintle_json::Json;
use std::collections::HashSet;

/// `storage.k8s.io/v1` CSINode.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct CsiNode;

impl Strategy for CsiNode {
    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            spec.set_default("drivers", Json::Null);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let doubles = doubles(object.list("/spec/drivers").map(|driver| driver.text("/name")));
        let all = Check::of(object).each("spec.drivers", |driver, at| {
            let (name, node) = (driver.object().text("/name"), driver.object().text("/nodeID"));
            let field = driver.path("name");
            driver
                .also(driver_faults(name, &field))
                .required("nodeID")
                .refuse(node.len() > 256, || FieldFault::invalid_text("nodeID", node, "must be 256 characters or less"))
                .not_negative(&["allocatable.count"])
                .refuse(doubles[at], || FieldFault::duplicate("name", &name.into()))
                .also(topology_faults(object, at))
        });
        all.done()
    }

    fn validate_update(&self, new: &Json, _: &Json, _: Part) -> FieldFaults {
        self.validate_create(new)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Drivers:integer, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), object.list("/spec/drivers").count().into(), row.age()]
    }
}

/// The keys of the labels that say where a driver reaches, told at the driver's own path.
fn topology_faults(node: &Json, at: usize) -> FieldFaults {
    let path = format!("spec.drivers[{at}]");
    let mut seen = HashSet::new();
    let mut faults = FieldFaults::default();
    for key in node.list("/spec/drivers").nth(at).into_iter().flat_map(|driver| driver.texts("/topologyKeys")) {
        if key.is_empty() {
            faults.push(FieldFault::required(path.as_str(), ""));
        }
        if !seen.insert(key) {
            faults.push(FieldFault::duplicate(path.as_str(), &key.into()));
        }
        faults.extend(label_key_faults(key).iter().map(|why| FieldFault::invalid_text(path.as_str(), key, why)));
    }
    faults
}

//! PodDisruptionBudget.

use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy};
use crate::object::text;
use crate::request::Part;
use crate::validate::{Faults, FieldFault, NameRule, label_value_faults};
use jiff::Timestamp;
use pintle_json::{Json, json};

/// `policy/v1` PodDisruptionBudget.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn defaults(&self, object: &mut Json) {
        object.member("spec");
        if let Some(status) = object.member("status") {
            for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                status.default(key, 0);
            }
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({}));
        self.defaults(object);
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn validate_create(&self, object: &Json) -> Faults {
        let both = object.has("/spec/minAvailable") && object.has("/spec/maxUnavailable");
        let mut labels = Vec::new();
        for (_, value) in object.members("/spec/selector/matchLabels") {
            let value = value.as_str().unwrap_or_default();
            let why = label_value_faults(value);
            labels.extend(why.iter().map(|why| FieldFault::invalid_text("spec.selector.matchLabels", value, why)));
        }
        Check::of(object)
            .refuse(both, || {
                let spec = &object["spec"];
                FieldFault::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
            })
            .also(share_faults(object, "spec.minAvailable"))
            .also(share_faults(object, "spec.maxUnavailable"))
            .one_of("spec.unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"])
            .also(labels)
            .done()
    }

    fn validate_update(&self, new: &Json, _: &Json, part: Part) -> Faults {
        match part {
            Part::Status => {
                let fields = [
                    "status.disruptionsAllowed",
                    "status.currentHealthy",
                    "status.desiredHealthy",
                    "status.expectedPods",
                ];
                Check::of(new).not_negative(&fields).done()
            }
            _ => self.validate_create(new),
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Min Available, Max Unavailable, Allowed Disruptions:integer, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let bound = |pointer: &str| match object.has(pointer) {
            true => Json::from(text(object.at(pointer))),
            false => "N/A".into(),
        };
        let (least, most) = (bound("/spec/minAvailable"), bound("/spec/maxUnavailable"));
        vec![row.name(), least, most, row.number("/status/disruptionsAllowed"), row.age()]
    }
}

/// The faults of a number or a percentage.
fn share_faults(object: &Json, field: &str) -> Faults {
    let Some(value) = object.at(&format!("/{}", field.replace('.', "/"))) else { return Faults::default() };
    let why = match value {
        Json::Number(_) if value.as_i64().is_some_and(|number| number < 0) => "must be greater than or equal to 0",
        Json::String(text) => match text.strip_suffix('%').map(str::parse::<u32>) {
            Some(Ok(share)) if share > 100 => "must not be greater than 100%",
            Some(Ok(_)) => return Faults::default(),
            _ => {
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
                 validation is '[0-9]+%')"
            }
        },
        _ => return Faults::default(),
    };
    Faults::from([FieldFault::invalid(field, value, why)])
}

//! APIService.

use crate::kinds::check::Check;
use crate::kinds::reset::{ALL_BUT_STATUS, Reset};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy};
use crate::object::{default, has, list, member, present, set, text_at};
use crate::request::Part;
use crate::validate::{FieldFault, NameRule};
use jiff::Timestamp;
use serde_json::Value;

/// `apiregistration.k8s.io/v1` APIService.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct ApiService;

impl Strategy for ApiService {
    // That of the core group ends with its dot.
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", Value::Object(serde_json::Map::new()));
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(service) = object.get_mut("spec").and_then(|spec| present(spec, "service")) {
            default(service, "port", 443);
        }
        member(object, "status");
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let wanted = format!("{}.{}", text_at(object, "/spec/version"), text_at(object, "/spec/group"));
        let name = text_at(object, "/metadata/name");
        Check::of(object)
            .refuse(name != wanted, || {
                FieldFault::invalid_text(
                    "metadata.name",
                    name,
                    format!("must be `spec.version+\".\"+spec.group`: {wanted:?}"),
                )
            })
            .done()
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Service, Available, Age")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        let service = match has(object, "/spec/service") {
            true => format!("{}/{}", text_at(object, "/spec/service/namespace"), text_at(object, "/spec/service/name")),
            false => "Local".into(),
        };
        let available = list(object, "/status/conditions").find(|condition| text_at(condition, "/type") == "Available");
        let available = available.map_or_else(
            || "Unknown".into(),
            |condition| match text_at(condition, "/status") {
                "True" => "True".to_owned(),
                status => format!("{status} ({})", text_at(condition, "/reason")),
            },
        );
        vec![row.name(), service.into(), available.into(), row.age()]
    }

    fn reset_fields(&self, part: Part) -> Option<Reset> {
        (part == Part::Status).then_some(ALL_BUT_STATUS)
    }
}

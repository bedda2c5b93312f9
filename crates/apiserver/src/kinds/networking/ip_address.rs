//! IPAddress.

use crate::kinds::Strategy;
use crate::kinds::table::{self, Column, Row};
use jiff::Timestamp;
use pintle_json::Json;

/// `networking.k8s.io` IPAddress.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct IpAddress;

impl Strategy for IpAddress {
    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, ParentRef")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let part = |key: &str| object.text(&format!("/spec/parentRef/{key}"));
        let resource = match part("group") {
            "" => part("resource").into(),
            group => format!("{}.{group}", part("resource")),
        };
        let parts = [resource.as_str(), part("namespace"), part("name")];
        let parent = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        vec![row.name(), parent.into()]
    }
}

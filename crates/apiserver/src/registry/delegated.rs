//! Group versions that an APIService delegates to a Service. This server does not forward requests to the Services of
//! delegated group versions.

use pintle_apimachinery::failure::Failure;
use pintle_builtin::api_service::{RESOURCE, delegated_spec};
use pintle_json::{Json, json};
use pintle_storage::Range;

use super::Registry;

impl Registry {
    pub(crate) fn unavailable(&self, group: &str, version: &str) -> Option<Failure> {
        let unavailable =
            Failure { text: Some("service unavailable\n".into()), ..Failure::plain(503, "service unavailable") };
        let found = self.db.get(RESOURCE, &format!("{version}.{group}"))?;
        delegated_spec(&found).map(|_| unavailable)
    }

    pub(crate) fn delegated_group(&self, group: &str) -> Option<Json> {
        let all = self.db.objects_of(RESOURCE, &Range::namespace(None));
        let of_group =
            all.filter_map(|(_, stored)| delegated_spec(&stored)).filter(|spec| spec.text("/group") == group);
        let versions = of_group.map(|spec| {
            let version = spec.text("/version");
            json!({"groupVersion": format!("{group}/{version}"), "version": version})
        });
        let versions: Vec<_> = versions.collect();
        let preferred = versions.first()?.clone();
        Some(json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions, "preferredVersion": preferred,
        }))
    }
}

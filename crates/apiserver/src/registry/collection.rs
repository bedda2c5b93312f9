//! Handles `deletecollection` requests.

use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::options::{DeleteOptions, ListOptions};
use pintle_kinds::RequestTarget;
use pintle_meta::ResourceVersionMatch;
use pintle_serving::offload;

use super::Registry;
use super::list::{ListReply, Selection};

impl Registry {
    /// Deletes one page of the selected objects, and returns the listed objects. Skips objects that have been deleted
    /// by other requests. Any other failed deletion ends the request, without undoing earlier deletions. Yields to
    /// other tasks between two deletions.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the function deletes no further objects. Each single deletion is either complete or
    /// has no effect.
    pub(crate) async fn delete_collection(
        &self,
        selection: &Selection,
        list: &ListOptions,
        options: &DeleteOptions,
        by: &Requester,
    ) -> Outcome<ListReply> {
        let listed = loop {
            let listed = self.list(selection, &versioned(list), None).await?;
            // List again after conversions, because a selector can read fields that a webhook must convert.
            if !self.settle(by).await? {
                break listed;
            }
        };
        self.settle_list(&selection.kind, &listed, by).await?;
        let mut left = listed.objects.clone();
        while let Some(item) = left.scan_next() {
            tokio::task::yield_now().await;
            let Some(item) = item else { continue };
            offload::work_on(item.weight()).await;
            let target = RequestTarget::new(selection.kind.clone(), &item.namespace(), &item.name());
            let requested = RequestTarget::new(selection.kind.clone(), &target.namespace, "");
            let attempt = || self.delete_admitted(&target, &requested, options, by);
            match self.with_webhooks(by, attempt).await {
                Err(failure) if !failure.is_not_found() => return Err(failure),
                _ => (),
            }
        }
        Ok(listed)
    }
}

/// If the options have a `resourceVersion` without `resourceVersionMatch`, sets `resourceVersionMatch` to `Exact`.
/// kube-apiserver lists the objects in pages even if the request has no limit, and a paged list defaults to `Exact`.
fn versioned(list: &ListOptions) -> ListOptions {
    let version = !matches!(list.resource_version.as_str(), "" | "0") && list.continue_token.is_empty();
    let mut list = list.clone();
    if version && list.version_match.is_none() {
        list.version_match = Some(ResourceVersionMatch::Exact);
    }
    list
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;
    use pintle_effort::turns;
    use pintle_json::json;
    use pintle_storage::Expect;

    use super::*;
    use crate::config::ApiServerConfig;
    use crate::registry::list::SCAN_BATCH;
    use crate::registry::webhook_answers::register_failing_webhook;

    const MAPS: usize = 4 * SCAN_BATCH;

    fn selection(registry: &Registry, options: &ListOptions) -> Selection {
        let kinds = registry.kinds();
        let kind = kinds.resource("", "v1", "configmaps").expect("a built-in kind");
        Selection::parse(&RequestTarget::new(kind.clone(), "default", ""), options).expect("selectors")
    }

    fn registry() -> Registry {
        let registry = Registry::new(ApiServerConfig::default(), None);
        for at in 0..MAPS {
            let object = json!({"metadata": {"name": at.to_string(), "namespace": "default", "uid": at.to_string()}});
            let put = registry.db.put(&"configmaps".into(), &format!("default/{at}"), Expect::Absent, object);
            put.expect("absent");
        }
        registry
    }

    #[test]
    fn deletecollection_does_not_starve_other_tasks() {
        let (registry, list) = (registry(), ListOptions::default());
        let (selection, options) = (selection(&registry, &list), DeleteOptions::default());
        let (listed, turns) = turns(registry.delete_collection(&selection, &list, &options, &Requester::default()));
        assert_eq!(listed.expect("a list").objects.count(), MAPS);
        assert_eq!(registry.db.objects_of("configmaps", &selection.range()).left(), 0);
        assert!(turns >= MAPS / 2, "{turns}");
    }

    #[tokio::test]
    async fn webhook_registered_during_deletecollection_reviews_remaining_objects() {
        let (registry, list) = (registry(), ListOptions::default());
        let (selection, options) = (selection(&registry, &list), DeleteOptions::default());
        let left = || registry.db.objects_of("configmaps", &selection.range()).left();
        let by = Requester::default();
        let mut deletion = pin!(registry.delete_collection(&selection, &list, &options, &by));
        while left() == MAPS {
            assert!(deletion.as_mut().now_or_never().is_none());
        }
        let reviewed = left();
        assert!(reviewed > 0);
        register_failing_webhook(&registry);
        let failure = deletion.await.expect_err("the webhook fails");
        assert!(failure.status.message.contains("failed calling webhook"), "{}", failure.status.message);
        assert_eq!(left(), reviewed);
    }

    #[test]
    fn list_with_few_matches_does_not_starve_other_tasks() {
        let registry = registry();
        let mut list = ListOptions::default();
        (list.limit, list.label_selector) = (Some(1), "a=b".into());
        let (listed, turns) = turns(registry.list(&selection(&registry, &list), &list, None));
        assert_eq!(listed.expect("a list").objects.count(), 0);
        assert!(turns >= MAPS / SCAN_BATCH / 2, "{turns}");
    }
}

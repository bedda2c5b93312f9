//! Determines the revision and the initial events with which a watch starts.

use pintle_apimachinery::request::options::ListOptions;

pub(super) struct Start {
    pub(super) initial: bool,
    pub(super) end_mark: bool,
    /// The watch sends the changes after this revision, or after the current revision if the field is `None`.
    pub(super) after: Option<u64>,
}

impl Start {
    pub(super) fn new(options: &ListOptions, version: u64) -> Self {
        let text = options.resource_version.as_str();
        match options.send_initial_events {
            Some(true) => Self { initial: true, end_mark: options.allow_bookmarks, after: None },
            Some(false) => Self { initial: false, end_mark: false, after: (version > 0).then_some(version) },
            None if version > 0 => Self { initial: false, end_mark: false, after: Some(version) },
            None => {
                let plain = matches!(text, "" | "0");
                Self { initial: true, end_mark: plain && options.allow_bookmarks, after: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::FutureExt;
    use pintle_apimachinery::request::accept::Media;
    use pintle_apimachinery::request::query::Query;
    use pintle_json::json;
    use pintle_kinds::RequestTarget;
    use pintle_meta::GroupResource;
    use pintle_storage::Expect;

    use super::*;
    use crate::config::ApiServerConfig;
    use crate::registry::{Registry, Selection, Transform};
    use crate::watch::{FrameShape, Watcher};

    fn options(query: &str) -> ListOptions {
        ListOptions::parse(&Query::parse(query)).expect("a valid query")
    }

    /// Serves the custom resource by the definition with this uid, or withdraws it if the uid is empty.
    fn serve(registry: &Registry, uid: &str) {
        let versions = json!([{"name": "v1", "served": !uid.is_empty(), "storage": true}]);
        let names = json!({"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"});
        let definition = json!({
            "metadata": {"uid": uid},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
            "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]},
        });
        let kinds = pintle_apiextensions::kinds(&definition);
        assert_eq!(kinds.len(), usize::from(!uid.is_empty()));
        registry.change_kinds(|known| known.replace_custom(&GroupResource::new("example.com", "widgets"), kinds));
    }

    /// Starts a watch of a custom resource that has been routed. Between the routing and the first read of the store,
    /// the definition changes.
    fn watch(registry: &Arc<Registry>, options: &ListOptions, change: impl FnOnce()) -> Watcher {
        serve(registry, "1");
        let kind = registry.kinds().resource("example.com", "v1", "widgets").expect("a custom resource").clone();
        change();
        let selection = Selection::parse(&RequestTarget::new(kind, "", ""), options).expect("no selectors");
        let shape = FrameShape::new(Transform::None, Media::Json, registry.clock.clone());
        Watcher::start(registry.clone(), selection, options, shape, (None, None), None).expect("valid options")
    }

    #[tokio::test]
    async fn watch_routed_before_a_withdrawal_ends() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let change = |uids: &'static [&str]| {
            let registry = registry.clone();
            move || uids.iter().for_each(|uid| serve(&registry, uid))
        };
        let options = options("");
        let mut open = watch(&registry, &options, || ());
        assert!(open.next_piece().now_or_never().is_none());
        for changes in [&[""][..], &["", "2"]] {
            let mut withdrawn = watch(&registry, &options, change(changes));
            assert!(matches!(withdrawn.next_piece().now_or_never(), Some(None)), "{changes:?}");
        }
    }

    #[tokio::test]
    async fn watch_of_a_future_version_ends_after_a_withdrawal() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let next = registry.db.revision() + 1;
        let options = options(&format!("resourceVersion={next}&sendInitialEvents=true"));
        let mut waiting = watch(&registry, &options, || ());
        assert!(waiting.next_piece().now_or_never().is_none());
        serve(&registry, "");
        registry.db.renew(waiting.selection.kind.resource_key());
        registry.db.put(&"configmaps".into(), "default/a", Expect::Absent, json!({})).expect("absent");
        let piece = tokio::time::timeout(Duration::from_secs(20), waiting.next_piece()).await;
        assert!(piece.expect("the watch ends").is_none());

        let change = || serve(&registry, "");
        let mut withdrawn = watch(&registry, &self::options("resourceVersion=999&sendInitialEvents=true"), change);
        assert!(matches!(withdrawn.next_piece().now_or_never(), Some(None)), "it does not wait for the version");
    }
}

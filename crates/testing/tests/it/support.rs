//! Test objects, and helper functions that poll futures without a runtime.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pintle_meta::{ListOptions, ListPart, ListWatch, ObjectKey, ObjectMeta, WatchEvent, WatchOptions};
use pintle_testing::{Collection, Events};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Website {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<State>,
}
pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Spec {
    pub(crate) theme: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct State {
    pub(crate) ready: bool,
}

pub(crate) fn site(name: &str) -> Website {
    Website { metadata: ObjectMeta::new("ns", name), ..Website::default() }
}

pub(crate) fn themed(name: &str, theme: &str) -> Website {
    Website { spec: Spec { theme: theme.into() }, ..site(name) }
}

pub(crate) fn labelled(name: &str, labels: &[(&str, &str)]) -> Website {
    let mut site = site(name);
    site.metadata.labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    site
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

pub(crate) fn sites(names: &[&str]) -> Collection<Website> {
    names.iter().map(|name| site(name)).collect()
}

/// Returns the output of a future, and panics if the future is not ready immediately.
#[track_caller]
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match poll(future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}

pub(crate) fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Formats the metadata and the items of a page. The metadata has the form `at revision`, with a `+` at the end if
/// there are further pages. An item has the form `name@revision`.
pub(crate) fn page<L: ListWatch<Page = pintle_testing::Page>>(source: &L, options: &ListOptions) -> (String, String) {
    let mut page = now(source.list(options)).unwrap();
    let (mut items, mut next) = (Vec::new(), String::new());
    while let Some(part) = now(page.next()) {
        match part.unwrap() {
            ListPart::Item(object) => items.push(text(&object.decode().unwrap())),
            ListPart::Metadata(list) => {
                items.push(format!("at {}", list.resource_version));
                next = list.continue_token;
            }
        }
    }
    (items.join(" "), next)
}

pub(crate) fn from(revision: u64) -> WatchOptions {
    WatchOptions { resource_version: revision.to_string(), allow_bookmarks: true, ..WatchOptions::default() }
}

/// Formats all available items of a watch, such as `ADDED a@1`, `BOOKMARK @7`, `ERROR 410`, `failed: why` or `end`.
pub(crate) fn available(events: &mut Events) -> Vec<String> {
    let mut available = Vec::new();
    while let Poll::Ready(item) = poll(events.next()) {
        let end = item.is_none();
        available.push(match item {
            None => "end".into(),
            Some(Err(error)) => format!("failed: {error}"),
            Some(Ok(event)) => {
                let what = event.event_type();
                match event.decode::<Value>().unwrap() {
                    WatchEvent::Bookmark(mark) => {
                        format!(
                            "{what} @{}{}",
                            mark.resource_version,
                            if mark.initial_events_end { " end" } else { "" }
                        )
                    }
                    WatchEvent::Error(status) => format!("{what} {}", status.code),
                    WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                        format!("{what} {}", text(&object))
                    }
                }
            }
        });
        if end {
            break;
        }
    }
    available
}

pub(crate) fn log(collection: &Collection<Website>) -> Vec<String> {
    collection.take_requests().iter().map(ToString::to_string).collect()
}

pub(crate) fn by_key(sites: Vec<Website>) -> BTreeMap<ObjectKey, Website> {
    use pintle_meta::Object;
    sites.into_iter().map(|site| (site.key(), site)).collect()
}

fn text(object: &Value) -> String {
    let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}@{}", meta("name"), meta("resourceVersion"))
}

//! Tests of lists: pages, revisions and selectors.

use pintle_meta::{ApiError, ListOptions, ListWatch, ResourceVersionMatch};
use pintle_testing::{Collection, CollectionConfig};

use crate::support::{Website, key, labelled, now, page, site, sites};

fn options(resource_version: &str, limit: u32) -> ListOptions {
    ListOptions { resource_version: resource_version.into(), limit, ..ListOptions::default() }
}

fn next(token: &str) -> ListOptions {
    ListOptions { continue_token: token.into(), ..options("", 2) }
}

fn fails(sites: &Collection<Website>, options: &ListOptions) -> ApiError {
    now(sites.list(options)).unwrap_err()
}

#[test]
fn pages_of_a_list_share_one_revision() {
    let sites = sites(&["a", "b", "c", "d", "e"]);
    let (first, token) = page(&sites, &options("", 2));
    assert_eq!(first, "at 5 a@1 b@2");
    sites.remove(&key("c"));
    sites.put(site("dd"));
    let (second, token) = page(&sites, &next(&token));
    assert_eq!(second, "at 5 c@3 d@4");
    assert_eq!(page(&sites, &next(&token)), ("at 5 e@5".into(), String::new()));
    assert_eq!(page(&sites, &options("", 0)).0, "at 7 a@1 b@2 d@4 dd@7 e@5");
}

#[test]
fn page_has_remaining_count_unless_it_selects() {
    let sites: Collection<_> = ["a", "b", "c"].map(|name| labelled(name, &[("app", "web")])).into();
    let left = |options: &ListOptions| {
        let mut page = now(sites.list(options)).unwrap();
        let Some(Ok(pintle_meta::ListPart::Metadata(list))) = now(page.next()) else { panic!("no metadata") };
        list.remaining_item_count
    };
    assert_eq!((left(&options("", 1)), left(&options("", 3))), (Some(2), None));
    assert_eq!(left(&ListOptions { label_selector: "app=web".parse().unwrap(), ..options("", 1) }), None);
}

#[test]
fn list_at_revision_0_ignores_limit_with_watch_cache() {
    let names = ["a", "b", "c"];
    assert_eq!(page(&sites(&names), &options("0", 2)).0, "at 3 a@1 b@2 c@3");
    let uncached = Collection::new(CollectionConfig { watch_cache: false, ..CollectionConfig::default() });
    names.iter().for_each(|name| _ = uncached.put(site(name)));
    assert_eq!(page(&uncached, &options("0", 2)).0, "at 3 a@1 b@2");
}

#[test]
fn list_honours_resource_version_match() {
    let sites = sites(&["a", "b"]);
    sites.remove(&key("a"));
    let at = |version: &str, how| ListOptions { resource_version_match: Some(how), ..options(version, 0) };
    assert_eq!(page(&sites, &options("1", 0)).0, "at 3 b@2");
    assert_eq!(page(&sites, &at("1", ResourceVersionMatch::NotOlderThan)).0, "at 3 b@2");
    assert_eq!(page(&sites, &at("2", ResourceVersionMatch::Exact)).0, "at 2 a@1 b@2");
    assert_eq!(page(&sites, &options("2", 5)).0, "at 2 a@1 b@2", "a limit without a match means the exact revision");
}

#[test]
fn list_rejects_future_compacted_and_invalid_revisions() {
    let sites = sites(&["a", "b", "c"]);
    let error = fails(&sites, &options("9", 0));
    assert!(error.is_too_large_resource_version() && error.retry_after.is_some(), "{error}");
    let (_, token) = page(&sites, &options("", 1));
    sites.put(site("d"));
    sites.compact();
    assert!(fails(&sites, &next(&token)).is_expired());
    let exact = ListOptions { resource_version_match: Some(ResourceVersionMatch::Exact), ..options("3", 0) };
    assert!(fails(&sites, &exact).is_expired());
    assert!(fails(&sites, &options("yesterday", 0)).is_bad_request());
    assert!(fails(&sites, &next("garbage")).is_bad_request());
    assert!(fails(&sites, &ListOptions { continue_token: "4:ns/a".into(), ..options("4", 0) }).is_bad_request());
    assert_eq!(page(&sites, &options("3", 0)).0, "at 4 a@1 b@2 c@3 d@4", "NotOlderThan never expires");
}

#[test]
fn selectors_and_namespaces_filter_lists() {
    let sites: Collection<_> =
        [labelled("a", &[("app", "web"), ("tier", "1")]), labelled("b", &[("app", "db")]), site("c")].into();
    let mut elsewhere = labelled("d", &[("app", "web")]);
    elsewhere.metadata.namespace = "other".into();
    sites.put(elsewhere);
    let names = |labels: &str, fields: &str| {
        let options = ListOptions {
            label_selector: labels.parse().unwrap(),
            field_selector: fields.parse().unwrap(),
            ..ListOptions::default()
        };
        page(&sites, &options).0
    };
    for (labels, fields, expected) in [
        ("app=web", "", "at 4 a@1 d@4"),
        ("app==web, tier", "", "at 4 a@1"),
        ("app!=web", "", "at 4 b@2 c@3"),
        ("!app", "", "at 4 c@3"),
        ("app in (db, cache)", "", "at 4 b@2"),
        ("", "metadata.name=b", "at 4 b@2"),
        ("app=web", "metadata.namespace!=ns", "at 4 d@4"),
    ] {
        assert_eq!(names(labels, fields), expected, "{labels:?} {fields:?}");
    }
    let other = sites.client("one").in_namespace("other");
    assert_eq!(page(&other, &ListOptions::default()).0, "at 4 d@4");
    let error =
        fails(&sites, &ListOptions { field_selector: "spec.theme=dark".parse().unwrap(), ..ListOptions::default() });
    assert!(error.is_bad_request() && error.to_string().contains("field label not supported: spec.theme"), "{error}");
}

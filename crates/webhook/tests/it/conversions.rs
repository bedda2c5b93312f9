//! Tests of conversion reviews.

use std::time::Duration;

use pintle_meta::ObjectMeta;
use pintle_webhook::{Hub, Webhooks};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{ask, post, text};

const PATH: &str = "/convert/example.com/websites";

#[derive(Deserialize, Serialize)]
struct V2 {
    metadata: ObjectMeta,
    domains: Vec<String>,
}
pintle_meta::resource!(V2, "example.com/v2", "Website", "websites", Namespaced);

#[derive(Deserialize, Serialize)]
struct V1 {
    metadata: ObjectMeta,
    domain: String,
}
pintle_meta::resource!(V1, "example.com/v1", "Website", "websites", Namespaced);

#[derive(Deserialize, Serialize)]
struct V0 {
    metadata: Name,
}
pintle_meta::resource!(V0, "example.com/v0", "Website", "websites", Namespaced);

#[derive(Deserialize, Serialize)]
struct Name {
    name: String,
}

impl pintle_meta::Metadata for Name {
    fn name(&self) -> &str {
        &self.name
    }
    fn namespace(&self) -> &str {
        ""
    }
    fn uid(&self) -> &str {
        ""
    }
    fn resource_version(&self) -> &str {
        ""
    }
}

impl From<V1> for V2 {
    fn from(old: V1) -> Self {
        assert_ne!(old.domain, "panic");
        let mut metadata = old.metadata;
        metadata.annotations.insert("was".into(), "v1".into());
        metadata.labels.remove("drop");
        metadata.name = "renamed".into();
        metadata.finalizers.clear();
        Self { metadata, domains: vec![old.domain] }
    }
}

impl TryFrom<V2> for V1 {
    type Error = String;

    fn try_from(site: V2) -> Result<Self, String> {
        match &site.domains[..] {
            [domain] => Ok(Self { metadata: site.metadata, domain: domain.clone() }),
            domains => Err(format!("{} domains do not fit into one", domains.len())),
        }
    }
}

impl From<V0> for V2 {
    fn from(old: V0) -> Self {
        Self { metadata: ObjectMeta::new("", old.metadata.name), domains: vec!["zero".into()] }
    }
}

impl From<V2> for V0 {
    fn from(site: V2) -> Self {
        Self { metadata: Name { name: site.metadata.name } }
    }
}

fn webhooks() -> Webhooks {
    Webhooks::new().convert(Hub::<V2>::new().spoke::<V1>().spoke::<V0>())
}

fn review(desired: &str, objects: Value) -> Value {
    let request = json!({"uid": "u-1", "desiredAPIVersion": desired, "objects": objects});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})
}

fn v1(domain: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Website", "domain": domain,
        "metadata": {
            "name": "blog", "uid": "4f9a", "finalizers": ["f"], "managedFields": [{"manager": "m"}],
            "labels": {"drop": "x", "keep": "y"},
        },
    })
}

fn v2(domains: &[&str]) -> Value {
    json!({"apiVersion": "example.com/v2", "kind": "Website", "domains": domains, "metadata": {"name": "blog"}})
}

#[tokio::test]
async fn only_labels_and_annotations_of_metadata_change() {
    let response = ask(&webhooks(), PATH, &review("example.com/v2", json!([v1("a"), v2(&["b", "c"])]))).await;
    assert_eq!((&response["uid"], &response["result"]["status"]), (&json!("u-1"), &json!("Success")));
    let converted = json!({
        "apiVersion": "example.com/v2", "kind": "Website", "domains": ["a"],
        "metadata": {
            "name": "blog", "uid": "4f9a", "finalizers": ["f"], "managedFields": [{"manager": "m"}],
            "labels": {"keep": "y"}, "annotations": {"was": "v1"},
        },
    });
    assert_eq!(response["convertedObjects"], json!([converted, v2(&["b", "c"])]));
}

#[tokio::test]
async fn spokes_convert_through_the_hub() {
    let response = ask(&webhooks(), PATH, &review("example.com/v0", json!([v1("a")]))).await;
    // The converted object keeps its labels, although `V0` has no field for labels.
    assert_eq!(response["convertedObjects"][0]["metadata"], v1("a")["metadata"]);
    let zero = json!({
        "apiVersion": "example.com/v0", "kind": "Website",
        "metadata": {"name": "blog", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    });
    let response = ask(&webhooks(), PATH, &review("example.com/v1", json!([zero]))).await;
    let converted = &response["convertedObjects"][0];
    assert_eq!((&converted["domain"], &converted["metadata"]["labels"]), (&json!("zero"), &json!({"a": "b"})));
    assert_eq!(converted["metadata"]["annotations"], json!({"c": "d"}));
}

#[tokio::test]
async fn metadata_that_the_hub_does_not_know_is_kept() {
    #[derive(Deserialize, Serialize)]
    struct V3 {
        metadata: ObjectMeta,
    }
    pintle_meta::resource!(V3, "example.com/v3", "Website", "websites", Namespaced);
    impl From<V3> for V0 {
        fn from(site: V3) -> Self {
            Self { metadata: Name { name: site.metadata.name } }
        }
    }
    impl From<V0> for V3 {
        fn from(hub: V0) -> Self {
            Self { metadata: ObjectMeta::new("", hub.metadata.name) }
        }
    }
    let mut labelled = v2(&["a"]);
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let webhooks = Webhooks::new().convert(Hub::<V0>::new().spoke::<V2>().spoke::<V3>());
    let response = ask(&webhooks, PATH, &review("example.com/v3", json!([labelled]))).await;
    assert_eq!(response["convertedObjects"][0]["metadata"], labelled["metadata"]);
}

#[tokio::test]
async fn conversion_can_remove_all_labels() {
    let mut sent = v1("a");
    sent["metadata"]["labels"] = json!({"drop": "x"});
    let response = ask(&webhooks(), PATH, &review("example.com/v2", json!([sent]))).await;
    assert_eq!(response["convertedObjects"][0]["metadata"].get("labels"), None);
}

#[tokio::test]
async fn failure_of_one_object_fails_the_review() {
    let other = |member: &str, value: Value| {
        let mut object = v1("a");
        object[member] = value;
        object
    };
    for (desired, object, expected) in [
        (
            "v1",
            v2(&["a", "b"]),
            r#"objects[1]: websites.example.com "blog": example.com/v1: 2 domains do not fit into one"#,
        ),
        ("v2", other("domain", json!(7)), "example.com/v1: domain: invalid type: integer, expected a string"),
        ("v2", v1("panic"), "objects[1]: the conversion panicked"),
        (
            "v9",
            v1("a"),
            r#""example.com/v9" is no version of websites.example.com; the webhook converts example.com/v0,"#,
        ),
        ("v2", other("apiVersion", json!("example.com/v8")), r#""example.com/v8" is no version"#),
        ("v2", other("kind", json!("Secret")), r#"the kind is "Secret" and not "Website""#),
        ("v2", other("metadata", Value::Null), "the object has no metadata"),
        ("v2", json!("text"), "objects[1]: the value is not a JSON object"),
        ("v2", json!(["example.com/v2", "Website", {}]), "objects[1]: the value is not a JSON object"),
    ] {
        let sent = if desired == "v1" { v2(&["c"]) } else { v1("c") };
        let review = review(&format!("example.com/{desired}"), json!([sent, object]));
        let response = ask(&webhooks(), PATH, &review).await;
        assert_eq!((&response["uid"], &response["result"]["status"]), (&json!("u-1"), &json!("Failure")));
        assert_eq!(response["convertedObjects"], json!([]));
        let message = response["result"]["message"].as_str().unwrap();
        assert!(message.contains(expected) || desired == "v9", "{message}");
    }
}

#[tokio::test]
async fn unknown_desired_version_names_the_known_ones() {
    let response = ask(&webhooks(), PATH, &review("example.com/v9", json!([v1("a")]))).await;
    let expected = "objects[0]: \"example.com/v9\" is no version of websites.example.com; \
                    the webhook converts example.com/v0, example.com/v1, example.com/v2";
    assert_eq!(response["result"]["message"], expected);
}

#[tokio::test]
async fn object_above_the_size_limit_fails_the_review() {
    let mut object = v1("a");
    object["numbers"] = json!(vec![0; 4 << 20]);
    let response = ask(&webhooks(), PATH, &review("example.com/v1", json!([object]))).await;
    assert_eq!(response["result"]["message"], "objects[0]: the object has more than 8388608 bytes");
}

#[tokio::test]
async fn objects_that_are_no_list_are_rejected() {
    let review = review("example.com/v1", json!({}));
    let (status, message) = text(post(&webhooks(), PATH, review.to_string()).await).await;
    assert_eq!((status.as_u16(), &*message), (400, "the body is no valid review: request.objects is not a list\n"));
}

#[tokio::test]
async fn long_foreign_text_is_shortened_in_failures() {
    let long = "ü".repeat(100_000);
    let long_name = |object: Value| {
        let mut object = object;
        object["metadata"]["name"] = json!(long);
        object
    };
    let mut label = v1("a");
    label["metadata"]["labels"] = json!({&*long: 7});
    for (desired, object, expected) in [
        (&*long, v1("a"), "is no version"),
        ("example.com/v2", json!({"apiVersion": long, "kind": "Website", "metadata": {}}), "is no version"),
        ("example.com/v2", json!({"kind": long, "metadata": {}}), "the kind is"),
        ("example.com/v1", long_name(v2(&[])), "0 domains do not fit into one"),
        ("example.com/v2", label, "invalid type: integer"),
    ] {
        let response = ask(&webhooks(), PATH, &review(desired, json!([object]))).await;
        let message = response["result"]["message"].as_str().unwrap();
        assert!(message.contains(expected) && message.len() < 2_000, "{expected}: {} bytes", message.len());
    }
}

#[tokio::test]
async fn empty_review_succeeds() {
    for objects in [json!([]), Value::Null] {
        let response = ask(&webhooks(), PATH, &review("example.com/v2", objects)).await;
        assert_eq!((&response["result"]["status"], &response["convertedObjects"]), (&json!("Success"), &json!([])));
    }
}

#[tokio::test(start_paused = true)]
async fn long_conversion_lets_other_tasks_run() {
    for (count, domain) in [(500, "a"), (20, &*"a".repeat(100_000))] {
        let (webhooks, review) = (webhooks(), review("example.com/v2", json!(vec![v1(domain); count])));
        let beside = tokio::spawn(async { tokio::time::sleep(Duration::ZERO).await });
        let (status, _) = text(post(&webhooks, PATH, review.to_string()).await).await;
        assert!(status == 200 && beside.is_finished(), "{count} objects");
    }
}

#[test]
#[should_panic(expected = "they must be versions of one kind")]
fn spoke_of_another_kind_panics() {
    #[derive(Deserialize, Serialize)]
    struct Other {
        metadata: ObjectMeta,
    }
    pintle_meta::resource!(Other, "example.com/v1", "Other", "others", Namespaced);
    impl From<Other> for V2 {
        fn from(_: Other) -> Self {
            unreachable!("the hub rejects the kind")
        }
    }
    impl From<V2> for Other {
        fn from(_: V2) -> Self {
            unreachable!("the hub rejects the kind")
        }
    }
    let _ = Hub::<V2>::new().spoke::<Other>();
}

#[test]
#[should_panic(expected = "example.com/v1 was already added")]
fn repeated_version_panics() {
    let _ = Hub::<V2>::new().spoke::<V1>().spoke::<V1>();
}

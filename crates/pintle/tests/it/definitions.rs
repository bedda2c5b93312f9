//! Tests that an API server accepts each CustomResourceDefinition without a warning and validates objects with it.
//!
//! By default, the tests use the embedded server. If `PINTLE_CONFORMANCE_KUBECONFIG` contains the path of a kubeconfig,
//! they use a real server.

use std::sync::{Arc, Mutex};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pintle::kubeconfig::{Files, Overrides};
use pintle::meta::DynamicObject;
use pintle::prelude::*;
use pintle::restreq::{RestClient, RestClientConfig, Warning, WarningHandler};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::server;
use shapes::{
    Collections, Described, Enums, Extended, External, Flattened, Internal, More, Number, Plain, Scalars, Untagged,
};

#[path = "../../../crd/tests/it/shapes.rs"]
mod shapes;

#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl WarningHandler for Warnings {
    fn warn(&self, warning: &Warning) {
        self.0.lock().unwrap().push(warning.text.to_string());
    }
}

macro_rules! thing {
    ($kind:ident, $spec:ty) => {
        #[derive(Resource, Deserialize, Serialize, JsonSchema)]
        #[resource(group = "pintle.example.com", version = "v1", cluster)]
        struct $kind {
            metadata: ObjectMeta,
            spec: $spec,
        }
    };
}

thing!(CrdScalar, Scalars);
thing!(CrdCollection, Collections);
thing!(CrdEnum, Enums);
thing!(CrdFlattened, Flattened);
thing!(CrdExtended, Extended);

/// Creates the definition of `T` and the valid object `object`. Checks that the server rejects each change in
/// `invalid`, and finally deletes the definition.
async fn try_out<T>(client: &RestClient, object: T, invalid: &[(&str, Value)])
where
    T: CustomResource + Serialize + for<'de> Deserialize<'de> + Send + Sync + 'static,
{
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let crd = T::crd();
    let name = crd.metadata.name.clone();
    definitions.create(&crd, &WriteOptions::default()).await.unwrap();
    let established =
        |crd: Option<&CustomResourceDefinition>| crd.is_some_and(CustomResourceDefinition::is_established);
    definitions.wait_for(name.as_str(), established).await.unwrap();
    let things = Api::<T>::all(client.clone());
    let made = things.create(&object, &WriteOptions::default()).await.unwrap();
    let (sent, stored) = (serde_json::to_value(&object).unwrap(), serde_json::to_value(&made).unwrap());
    assert_eq!(stored["spec"], sent["spec"], "{name}");
    for (path, value) in invalid {
        let mut wrong = sent.clone();
        wrong["metadata"]["name"] = "wrong".into();
        *wrong.pointer_mut(path).unwrap() = value.clone();
        let wrong: DynamicObject = serde_json::from_value(wrong).unwrap();
        let dynamic = Api::dynamic(client.clone(), T::api_resource(), None).unwrap();
        let refused = dynamic.create(&wrong, &WriteOptions::default()).await.unwrap_err();
        assert!(refused.is_invalid(), "{name} {path}: {refused}");
    }
    definitions.delete(name.as_str(), &DeleteOptions::default()).await.unwrap();
}

#[tokio::test]
async fn server_takes_definitions_without_warning_and_checks_objects() {
    let embedded = server().await;
    let config = match std::env::var_os("PINTLE_CONFORMANCE_KUBECONFIG") {
        Some(path) => Files::explicit(path).load().unwrap().client_config(&Overrides::default()).unwrap(),
        None => embedded.client_config(),
    };
    let warnings = Warnings::default();
    let config = RestClientConfig { warning_handler: Arc::new(warnings.clone()), ..config.into() };
    let client = RestClient::new(config).unwrap();
    let metadata = ObjectMeta::new("", "a");

    let spec = Scalars {
        text: "a".into(),
        flag: true,
        small: 1,
        count: 2,
        long: -3,
        ratio: 0.5,
        letter: Some('x'),
        bounded: 1,
        absent: None,
        at: None,
    };
    let invalid = [("/spec/small", json!(256)), ("/spec/bounded", json!(0)), ("/spec/letter", json!("xy"))];
    try_out(&client, CrdScalar { metadata: metadata.clone(), spec }, &invalid).await;

    let spec = Collections {
        list: vec!["a".into()],
        set: ["a".into(), "b".into()].into(),
        map: [("a".into(), 1)].into(),
        numbered: [(1, "a".into())].into(),
        any: json!([1, {"a": null}]),
        anything: [("a".into(), json!(1))].into(),
        port: IntOrString::String("http".into()),
        pair: (1, 2),
        holes: vec![None, Some("a".into())],
        conditions: Conditions::default(),
        list_or_none: None,
    };
    let invalid = [("/spec/set", json!(["a", "a"])), ("/spec/map/a", json!(-1)), ("/spec/port", json!(true))];
    try_out(&client, CrdCollection { metadata: metadata.clone(), spec }, &invalid).await;

    let spec = Enums {
        plain: Plain::One,
        optional: None,
        described: Some(Described::External),
        external: External::Secret { name: "s".into() },
        internal: Internal::B { y: "y".into() },
        untagged: Untagged::ById { id: 1 },
        number: Number::Integer(1),
    };
    let invalid = [
        ("/spec/plain", json!("Three")),
        ("/spec/external", json!({})),
        ("/spec/external", json!({"disk": {"size": 1}, "secret": {"name": "s"}})),
        ("/spec/internal", json!({"type": "A", "y": "y"})),
        ("/spec/untagged", json!({})),
    ];
    try_out(&client, CrdEnum { metadata: metadata.clone(), spec }, &invalid).await;

    let spec = Flattened {
        name: "n".into(),
        source: External::Disk { size: 1 },
        other: Internal::A { x: 1 },
        more: More { extra: Some("e".into()) },
    };
    let invalid = [("/spec/type", json!("B"))];
    try_out(&client, CrdFlattened { metadata: metadata.clone(), spec }, &invalid).await;

    let spec = Extended { checked: 1, free: json!({"a": [1]}), with_default: 6 };
    try_out(&client, CrdExtended { metadata, spec }, &[("/spec/with_default", json!("x"))]).await;

    let warnings = warnings.0.lock().unwrap();
    // Warnings about CEL rules are ignored.
    let others = warnings.iter().filter(|text| !text.contains("x-kubernetes-validations"));
    assert_eq!(others.collect::<Vec<_>>(), [""; 0]);
}

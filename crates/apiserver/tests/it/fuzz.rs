//! Sends requests with random bodies, patches, schemas, selectors and headers. The server must respond to each request
//! and keep running. Unbounded recursion aborts the test, because the server's threads have the default stack of 2 MiB.

use std::io::Write as _;

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::definition_of;
use crate::support::*;

const WORDS: &[&str] = &[
    "metadata",
    "name",
    "spec",
    "status",
    "labels",
    "a",
    "",
    "$patch",
    "$retainKeys",
    "$setElementOrder/ports",
    "f:metadata",
    "k:{\"name\":\"a\"}",
    "v:1",
    ".",
    "properties",
    "items",
    "type",
    "object",
    "array",
    "allOf",
    "not",
    "additionalProperties",
    "default",
    "x-kubernetes-list-type",
    "map",
    "set",
    "/metadata/labels/a",
    "/-",
    "~1",
    "add",
    "test",
    "copy",
    "move",
    "matchLabels",
    "null",
    "10.0.0.1",
    "1e400",
    "9223372036854775808",
    "\u{fffd}\u{0}",
    "a=b,c in (d,e),!f",
    "metadata.name=x",
    "((((",
    "[[[[",
    "{.a[?(@.b==1)]}",
    "&a [*a, *a]",
    "!!binary x",
    "%TAG ! x",
    "default",
    "v1",
    "ConfigMap",
    "2024-01-01T00:00:00Z",
    "1h",
    "-5Mi",
];

struct Generator(fastrand::Rng);

impl Generator {
    fn word(&mut self) -> String {
        let word = WORDS[self.0.usize(..WORDS.len())];
        match self.0.u8(..20) {
            0 => word.repeat(self.0.usize(..2000)),
            1 => format!("{word}{}", self.0.u64(..)),
            _ => word.to_owned(),
        }
    }

    /// Returns JSON text. Some texts are so deeply nested that a recursive parser would overflow the stack.
    fn json(&mut self, depth: usize) -> String {
        match self.0.u8(..14) {
            0 => "null".into(),
            1 => self.0.bool().to_string(),
            2 => ["0", "-1", "1e999", "1.5", "9223372036854775808", "-0", "30000"][self.0.usize(..7)].into(),
            3 if depth < 3 => {
                let levels = [100, 126, 127, 128, 1000, 100_000][self.0.usize(..6)];
                let (open, close) =
                    [("[", "]"), ("{\"a\":", "}"), ("{\"properties\":{\"a\":", "}}"), ("{\"not\":", "}")]
                        [self.0.usize(..4)];
                format!("{}{}{}", open.repeat(levels), self.json(9), close.repeat(levels))
            }
            4..=7 if depth < 6 => {
                let count = self.0.usize(..5);
                let items: Vec<_> = (0..count).map(|_| self.json(depth + 1)).collect();
                format!("[{}]", items.join(","))
            }
            8..=11 if depth < 6 => {
                let count = self.0.usize(..6);
                let members: Vec<_> =
                    (0..count).map(|_| format!("{}:{}", Json::from(self.word()), self.json(depth + 1))).collect();
                format!("{{{}}}", members.join(","))
            }
            _ => Json::from(self.word()).to_string(),
        }
    }

    /// Returns the JSON text of an object, usually with one value replaced by random text.
    fn mutated(&mut self, object: &Json) -> String {
        if self.0.u8(..6) == 0 {
            return object.to_string();
        }
        let (mut object, mut pointer) = (object.clone(), String::new());
        for _ in 0..self.0.usize(1..7) {
            let keys: Vec<String> = match object.at(&pointer) {
                Some(Json::Object(members)) if !members.is_empty() => members.keys().map(Into::into).collect(),
                Some(Json::Array(items)) if !items.is_empty() => (0..items.len()).map(|at| at.to_string()).collect(),
                _ => break,
            };
            pointer = format!("{pointer}/{}", keys[self.0.usize(..keys.len())]);
        }
        // Insert the random text through a placeholder in the object's text, because the random text may not be valid
        // JSON.
        const MARK: &str = "\"<here>\"";
        *object.at_mut(&pointer).expect("the pointer was built from the object") = "<here>".into();
        object.to_string().replace(MARK, &self.json(0))
    }
}

/// Checks that each response is consistent with the audit and the stored objects.
struct Oracle<'a> {
    server: &'a ApiServer,
    accepted: usize,
    refused: usize,
}

impl Oracle<'_> {
    async fn check(&mut self, method: &Method, path: &str, answer: &Answer, context: &str) {
        let Answer { code, body, .. } = answer;
        let audit = self.server.audit().despite_loss();
        let record = audit.records().last().unwrap_or_else(|| panic!("the audit has no record: {context}"));
        assert_eq!(record.code, *code, "{context}");
        let is_write = *method != Method::GET && !path.ends_with("/tokenreviews");
        if *code >= 400 {
            self.refused += 1;
            assert!(record.committed.is_none(), "it is refused with {code} and written: {context}");
            assert!(matches!(code, 400 | 404 | 409 | 410 | 413 | 415 | 422 | 500 | 504), "{code}: {context}");
            assert_eq!(
                (&body["kind"], &body["status"], &body["code"]),
                (&"Status".into(), &"Failure".into(), &Json::from(*code)),
                "{context}"
            );
            assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{context}");
            // Accept status 500 only if kube-apiserver also responds with 500.
            let message = body["message"].as_str().unwrap_or_default();
            assert!(*code != 500 || FAILS_INSIDE.iter().any(|known| message.contains(known)), "{message}: {context}");
            return;
        }
        assert!(matches!(code, 200..=202), "{code}: {context}");
        if !is_write || *method == Method::DELETE {
            return;
        }
        self.accepted += 1;
        let collection = if *method == Method::POST { path } else { CONFIG_MAPS };
        let name = body["metadata"]["name"].as_str().unwrap_or_else(|| panic!("the object has no name: {context}"));
        let stored = get(self.server, &format!("{collection}/{name}")).await;
        assert_eq!(stored.code, 200, "{name}: {context}");
        if path.contains("customresourcedefinitions") {
            // Compare only the spec of a CustomResourceDefinition, because the server writes the status later.
            assert_eq!(stored.body["spec"], body["spec"], "{context}");
        } else {
            assert_eq!(stored.body, *body, "{context}");
        }
    }
}

/// The messages of invalid requests for which kube-apiserver also returns status 500.
const FAILS_INSIDE: &[&str] = &[
    "strconv.ParseUint",
    "resourceVersion should not be set on objects to be created",
    // Apply patches and strategic patches cause these errors if a value has another type than in the object.
    "failed to create typed",
    "failed to convert new object",
    "failed to decode managed fields",
    "failed to merge config",
    "apiVersion must be specified in the patched object",
    "list element types are not identical",
    "cannot merge lists without merge key",
    "merging lists cannot yet be specified in the patch",
    "unable to find api field in struct",
    "unable to find the json field",
    "The order in patch list",
    "expected a []interface {}",
    "does not contain declared merge key",
    "unknown patch type",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_get_consistent_responses() {
    const REQUESTS: usize = 400;
    let seed =
        std::env::var("PINTLE_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().expect("PINTLE_SEED"));
    // Print the seed first, because a stack overflow would prevent later output.
    let _ = writeln!(std::io::stderr(), "seed {seed}");
    let mut generator = Generator(fastrand::Rng::with_seed(seed));
    let server = ApiServer::start(ApiServerConfig { audit: 1, ..ApiServerConfig::default() }).await.expect("a server");
    let container =
        json!({"name": "c", "image": "x", "ports": [{"containerPort": 1}], "env": [{"name": "A", "value": "b"}]});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p", "labels": {"a": "b"}}, "spec": {"containers": [container]}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer", "default": 1}}}}}});
    let definition = definition_of(
        "Gadget",
        json!({
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a[0]"}],
            "selectableFields": [{"jsonPath": ".spec.b"}],
        }),
    );
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"}, "spec": {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUFBPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K", "signerName": "a.b/c", "usages": ["any"]}});
    let review =
        json!({"spec": {"token": "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ.AA"}});
    create_map(&server, "a", json!({"a": "b"})).await;
    create_map(&server, "b", json!({})).await;
    let mut oracle = Oracle { server: &server, accepted: 0, refused: 0 };
    let pods = "/api/v1/namespaces/default/pods";
    let posts = [
        (pods, &pod),
        ("/api/v1/namespaces/default/services", &service),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", &request),
        ("/apis/authentication.k8s.io/v1/tokenreviews", &review),
    ];
    let patches =
        ["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];
    for number in 0..REQUESTS {
        // Truncate the text, because the client rejects URLs of more than 64 KiB.
        let encode = |text: &str| -> String {
            let text: String = text.chars().take(5_000).collect();
            percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string()
        };
        let (method, path, media, body) = match generator.0.u8(..8) {
            0..=2 => {
                let (path, object) = posts[generator.0.usize(..posts.len())];
                let media = ["application/json", "application/yaml"][generator.0.usize(..2)];
                (Method::POST, path.to_owned(), media, generator.mutated(object))
            }
            3 => (
                Method::POST,
                CONFIG_MAPS.to_owned(),
                "application/vnd.kubernetes.protobuf",
                format!("k8s\0{}", generator.json(0)),
            ),
            4 => {
                let operation = json!([{"op": "add", "path": "/data/x", "from": "/metadata", "value": "v"}, {"op": "copy", "from": "/data", "path": "/data/y"}]);
                let body = if generator.0.bool() { generator.mutated(&operation) } else { generator.json(0) };
                (Method::PATCH, format!("{CONFIG_MAPS}/a"), patches[generator.0.usize(..3)], body)
            }
            5 => {
                let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"z": "1"}});
                (
                    Method::PATCH,
                    format!("{CONFIG_MAPS}/a?fieldManager=m&force=true"),
                    "application/apply-patch+yaml",
                    generator.mutated(&apply),
                )
            }
            6 => {
                let name = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "timeout"]
                    [generator.0.usize(..6)];
                (Method::GET, format!("{pods}?{name}={}", encode(&generator.word())), "", String::new())
            }
            _ => (Method::DELETE, format!("{CONFIG_MAPS}/b"), "application/json", generator.json(0)),
        };
        let headers = [("content-type", media)];
        let answer = async { read(send(&server, method.clone(), &path, &headers, &body).await).await };
        let shown: String = body.chars().take(2000).collect();
        let context = format!("request {number} of seed {seed}: {method} {path} {media} {shown}");
        let answer =
            tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("no response in time: {context}"));
        oracle.check(&method, path.split('?').next().unwrap_or_default(), &answer, &context).await;
    }
    // The generator must produce both valid and invalid requests.
    let Oracle { accepted, refused, .. } = oracle;
    assert!(accepted > REQUESTS / 40 && refused > REQUESTS / 4, "seed {seed}: {accepted} accepted, {refused} refused");
    assert_eq!(get(&server, "/readyz").await.code, 200);
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
}

//! Tests of the server's Rust API: faults, garbage collection, tokens, manifests, seeds and shutdown.

use std::time::Duration;

use crate::support::definition_of;
use crate::support::*;
use http::Method;
use pintle_apiserver::faults::{Answer, Fault, Rule};
use pintle_apiserver::{ApiServer, ApiServerConfig, RequestVerb, StartError};
use pintle_json::{Json, json};

async fn server() -> ApiServer {
    ApiServer::start(ApiServerConfig { seed: Some(1), ..ApiServerConfig::default() }).await.expect("a server")
}

#[tokio::test]
async fn fault_rule_applies_a_limited_number_of_times() {
    let server = server().await;
    let (verb, resource) = (Some(RequestVerb::List), Some("configmaps".into()));
    let busy = Fault::Answer(Answer { retry_after: Some(1), ..Answer::new(429) });
    server.faults().add(Rule { verb, resource, times: Some(2), ..Rule::new(busy) });
    for _ in 0..2 {
        let answer = get(&server, CONFIG_MAPS).await;
        assert_eq!((answer.code, &answer.body["reason"]), (429, &json!("TooManyRequests")));
        assert_eq!(answer.headers["retry-after"], "1");
    }
    assert_eq!(get(&server, "/api/v1/namespaces").await.code, 200, "other resources are served");
    assert_eq!(get(&server, CONFIG_MAPS).await.code, 200);
    assert_eq!(server.faults().hits(), 2);
}

#[tokio::test]
async fn lost_answer_fault_keeps_the_write() {
    let server = server().await;
    let lost = Fault::LoseAnswer(Answer::new(500));
    server.faults().add(Rule { verb: Some(RequestVerb::Create), ..Rule::new(lost) });
    let object = json!({"metadata": {"name": "a"}});
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object.clone()).await.code, 500);
    let again = call(&server, Method::POST, CONFIG_MAPS, object).await;
    assert_eq!(again.body["reason"], "AlreadyExists");
}

#[tokio::test]
async fn owners_and_namespaces_are_deleted_with_their_content() {
    let server = server().await;
    let owner = call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": {"name": "owner"}})).await.body;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
    let dependent = json!({"metadata": {"name": "dependent", "ownerReferences": [reference]}});
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, dependent).await.code, 201);
    delete(&server, &format!("{CONFIG_MAPS}/owner")).await;
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    assert_eq!(get(&server, &format!("{CONFIG_MAPS}/dependent")).await.code, 404);

    server.load("{apiVersion: v1, kind: Namespace, metadata: {name: ns}}").expect("a namespace");
    server.load("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}}").expect("a config map");
    delete(&server, "/api/v1/namespaces/ns").await;
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    assert_eq!(get(&server, "/api/v1/namespaces/ns").await.code, 404);
    assert_eq!(get(&server, "/api/v1/namespaces/ns/configmaps/a").await.code, 404);
}

#[tokio::test]
async fn definition_is_served_once_the_server_has_settled() {
    let server = server().await;
    let definition = definition_of(
        "Widget",
        json!({
            "name": "v1",
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }),
    );
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    assert_eq!(get(&server, widgets).await.code, 404);
    server.load(&definition.to_string()).expect("a definition");
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    assert_eq!(get(&server, widgets).await.body["kind"], "WidgetList");
    delete(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com").await;
    tokio::time::timeout(PATIENCE, server.settle()).await.expect("quiet in time");
    assert_eq!(get(&server, widgets).await.code, 404);
}

#[tokio::test]
async fn wrong_token_gets_401_and_missing_rights_get_403() {
    let path = std::env::temp_dir().join(format!("pintle-tokens-{}.csv", std::process::id()));
    std::fs::write(&path, "secret,root,1,\"system:masters\"\nweak,bob,2,users\n").expect("a file");
    let config = ApiServerConfig { token_auth_file: Some(path.clone()), ..ApiServerConfig::default() };
    let started = ApiServer::start(config).await;
    std::fs::remove_file(&path).expect("the file");
    let server = started.expect("a server");
    for (token, code) in [("secret", 200), ("weak", 403), ("wrong", 401)] {
        let bearer = format!("Bearer {token}");
        let answer = send(&server, Method::GET, CONFIG_MAPS, &[("authorization", &bearer)], "").await;
        assert_eq!(answer.status(), code, "{token}");
    }
    assert_eq!(get(&server, CONFIG_MAPS).await.code, 403, "anonymous");
    let token = server.client_config().token.expect("the server creates a token");
    let bearer = format!("Bearer {}", token.expose());
    assert_eq!(send(&server, Method::GET, CONFIG_MAPS, &[("authorization", &bearer)], "").await.status(), 200);
}

#[tokio::test]
async fn start_errors_name_the_port_or_the_file() {
    let server = server().await;
    let port: u16 = server.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let config = ApiServerConfig { port, ..ApiServerConfig::default() };
    let error = ApiServer::start(config).await.expect_err("the port is taken");
    assert!(matches!(error, StartError::Bind { .. }));
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    let config = ApiServerConfig { token_auth_file: Some("/no/such/file".into()), ..ApiServerConfig::default() };
    let error = ApiServer::start(config).await.expect_err("no such file");
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

#[tokio::test]
async fn load_error_names_the_document_and_the_object() {
    let server = server().await;
    let check = |manifest: &str, expected: [&str; 2]| {
        let error = server.load(manifest).expect_err("a fault").to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    };
    check("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{kind: Nope}", ["document 2", "Nope"]);
    check("{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, odd: 1}", ["ConfigMap b", "odd"]);
    check("a: [", ["document 1", "line"]);
}

#[tokio::test]
async fn shutdown_ends_open_watches_and_frees_the_port() {
    let server = server().await;
    let url = server.url();
    let mut watch = Watch::start(&server, "").await;
    tokio::time::timeout(PATIENCE, server.shutdown()).await.expect("an end in time");
    assert_ne!(watch.next().await, Next::Event(Json::Null));
    let port: u16 = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    ApiServer::start(ApiServerConfig { port, ..ApiServerConfig::default() }).await.expect("the port is free again");
}

#[tokio::test]
async fn parallel_patches_of_one_object_lose_nothing() {
    let server = server().await;
    create_map(&server, "a", json!({})).await;
    let patches = (0..20).map(|number| patch_map_key(&server, number));
    futures_util::future::join_all(patches).await;
    let data = get(&server, &format!("{CONFIG_MAPS}/a")).await.body["data"].clone();
    assert_eq!(data.as_object().map(pintle_json::Map::len), Some(21));
}

async fn patch_map_key(server: &ApiServer, number: u32) {
    patch_map(server, "a", json!({"data": {(format!("k{number}")): "v"}})).await;
}

#[tokio::test(start_paused = true)]
async fn same_seed_and_start_time_give_identical_servers() {
    let file = std::env::temp_dir().join(format!("pintle-seed-{:x}.csv", fastrand::u64(..)));
    std::fs::write(&file, "t,bob,1\n").expect("a file");
    let made = async |seed| {
        let start_time = Some(std::time::UNIX_EPOCH + Duration::from_secs(1_800_000_000));
        let token_auth_file = Some(file.clone());
        let config = ApiServerConfig { seed, start_time, token_auth_file, ..ApiServerConfig::default() };
        let server = ApiServer::start(config).await.expect("a server");
        let token = server.client_config().token.expect("a token").expose().to_owned();
        (token, server.snapshot().to_text().replace(&server.url()[16..], ":PORT"))
    };
    let (first, second, other) = (made(Some(1)).await, made(Some(1)).await, made(Some(2)).await);
    assert!(first.1.contains("2027-01-15T08:00:00Z"), "{}", &first.1[..2000]);
    assert_eq!(first, second);
    assert_ne!(first.0, other.0);
    assert_ne!(first.1, other.1);
    assert_ne!(made(None).await.0, made(None).await.0, "random without a seed");
    std::fs::remove_file(file).expect("the file");
}

#[tokio::test]
async fn certificates_depend_only_on_the_seed() {
    let made = async |seed| {
        let config = ApiServerConfig { seed, tls: true, ..ApiServerConfig::default() };
        let server = ApiServer::start(config).await.expect("a server");
        let ca = server.client_config().tls.ca;
        let Some(pintle_meta::PemSource::Inline(ca)) = &ca else { panic!("a CA") };
        let socket = tokio::net::TcpStream::connect(&server.url()["https://".len()..]).await.expect("it listens");
        let stream = over_tls(ca, socket).await;
        let shown = stream.get_ref().1.peer_certificates().expect("a certificate").to_vec();
        server.shutdown().await;
        (ca.clone(), shown)
    };
    let (first, second, other) = (made(Some(7)).await, made(Some(7)).await, made(Some(8)).await);
    assert_eq!(first, second);
    assert!(first.0 != other.0 && first.1 != other.1, "seeds give different certificates");
    assert_ne!(made(None).await, made(None).await, "random without a seed");
}

#[tokio::test(start_paused = true)]
async fn fault_rules_have_time_windows_and_separate_counters() {
    let server = server().await;
    let rule = |code: u16, from: u64, until: Option<u64>| Rule {
        resource: Some("configmaps".into()),
        times: None,
        from: Duration::from_secs(from),
        until: until.map(Duration::from_secs),
        ..Rule::new(Fault::Answer(Answer::new(code)))
    };
    let early = server.faults().add(rule(503, 0, Some(10)));
    let late = server.faults().add(rule(429, 20, None));
    for (wait, code) in [(0, 503), (9, 503), (2, 200), (10, 429), (60, 429)] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        assert_eq!(get(&server, CONFIG_MAPS).await.code, code, "after {wait} s more");
    }
    assert_eq!((server.faults().hits_of(early), server.faults().hits_of(late)), (2, 2));
    server.faults().remove(late);
    assert_eq!(get(&server, CONFIG_MAPS).await.code, 200);
    assert_eq!((server.faults().hits_of(late), server.faults().hits()), (2, 4));
}

#[tokio::test]
async fn probability_of_a_fault_rule_is_independent_of_others() {
    let codes = async |other: bool| {
        let server =
            ApiServer::start(ApiServerConfig { seed: Some(7), ..ApiServerConfig::default() }).await.expect("a server");
        let half = |resource: &str| Rule {
            resource: Some(resource.into()),
            times: None,
            probability: 0.5,
            ..Rule::new(Fault::Answer(Answer::new(503)))
        };
        server.faults().add(half("configmaps"));
        server.faults().add(half("secrets"));
        let mut codes = Vec::new();
        for _ in 0..20 {
            if other {
                get(&server, "/api/v1/secrets").await;
            }
            codes.push(get(&server, CONFIG_MAPS).await.code);
        }
        codes
    };
    let alone = codes(false).await;
    assert!(alone.contains(&503) && alone.contains(&200), "{alone:?}");
    assert_eq!(alone, codes(true).await);
}

#[tokio::test(start_paused = true)]
async fn stale_fault_affects_reads_that_allow_old_state() {
    let server = server().await;
    let then = create_map(&server, "old", json!({})).await;
    let now = create_map(&server, "new", json!({})).await;
    let later = patch_map(&server, "old", json!({"data": {"k": "w"}})).await;
    let stale = Rule { resource: Some("configmaps".into()), times: None, ..Rule::new(Fault::Stale(then)) };
    let stale = server.faults().add(stale);
    let names = async |query: &str| {
        let list = get(&server, &format!("{CONFIG_MAPS}?{query}")).await.body;
        let items = list["items"].as_array().into_iter().flatten();
        let names: Vec<_> = items.filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect();
        (names.join(" "), list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(names("resourceVersion=0").await, ("old".to_owned(), then.to_string()));
    assert_eq!(names(&format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan")).await.0, "old");
    assert_eq!(names("").await, ("new old".to_owned(), later.to_string()), "a read of the latest version is not stale");
    assert_eq!(server.faults().hits_of(stale), 2);
    let old = get(&server, &format!("{CONFIG_MAPS}/old?resourceVersion=0")).await.body;
    assert_eq!((version(&old), &old["data"]["k"]), (then, &json!("v")));
    assert_eq!(
        get(&server, &format!("{CONFIG_MAPS}/new?resourceVersion=0")).await.code,
        404,
        "not created yet in the stale view"
    );
    let refused = get(&server, &format!("{CONFIG_MAPS}?resourceVersion={now}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(
        (refused.code, &refused.body["details"]["causes"][0]["reason"]),
        (504, &json!("ResourceVersionTooLarge"))
    );
    server.faults().remove(stale);
    assert_eq!(names("resourceVersion=0").await.0, "new old");
}

#[tokio::test]
async fn deprecated_watch_path_of_a_scale_writes_nothing() {
    let server = server().await;
    let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": pod});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let made = call(&server, Method::POST, deployments, json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let watch = "/apis/apps/v1/watch/namespaces/default/deployments/a/scale";
    let media = [("content-type", "application/merge-patch+json")];
    let answer = read(send(&server, Method::GET, watch, &media, r#"{"spec":{"replicas":7}}"#).await).await;
    assert_eq!(answer.code, 404, "{}", answer.body);
    assert_eq!(get(&server, &format!("{deployments}/a/scale")).await.body["spec"]["replicas"], 1);
}

/// The expected responses were recorded from kube-apiserver.
#[tokio::test]
async fn watching_unwatchable_resources_is_rejected() {
    let server = server().await;
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}}});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"}, "spec": spec});
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}});
    server.load(&definition.to_string()).expect("it is valid");
    server.settle().await;
    server.load(&widget.to_string()).expect("it is valid");
    let absent = (404, "the server could not find the requested resource");
    let custom = (405, "watch is not supported on resources of kind \"widgets.example.com\"");
    let widgets = "/apis/example.com/v1/watch/namespaces/default/widgets/a";
    for (path, (code, message)) in [
        ("/apis/apps/v1/watch/namespaces/default/deployments/a/scale", absent),
        ("/apis/apps/v1/watch/namespaces/default/deployments/a/status", absent),
        ("/apis/apps/v1/watch/namespaces/default/deployments/a/nothing", absent),
        ("/api/v1/watch/namespaces/default/pods/a/log", absent),
        ("/api/v1/watch/namespaces/default/pods/a/exec", absent),
        ("/api/v1/watch/namespaces/default/pods/a/binding", absent),
        ("/api/v1/watch/namespaces/default/bindings", absent),
        ("/api/v1/watch/componentstatuses", absent),
        ("/api/v1/watch/componentstatuses/etcd-0", absent),
        (
            "/api/v1/componentstatuses?watch=true",
            (405, "watch is not supported on resources of kind \"componentstatuses\""),
        ),
        (&format!("{widgets}/scale"), custom),
        (&format!("{widgets}/status"), custom),
        (&format!("{widgets}/nothing"), (404, "widgets.example.com \"a\" not found")),
    ] {
        let answer = read(send(&server, Method::GET, path, &[("accept", "text/html")], "").await).await;
        assert_eq!((answer.code, &answer.body["message"]), (code, &json!(message)), "{path}");
    }
    let posted = call(&server, Method::POST, &format!("{widgets}/scale"), json!({})).await;
    assert_eq!((posted.code, &posted.body["message"]), (custom.0, &json!(custom.1)));
    assert_eq!(call(&server, Method::POST, "/api/v1/watch/namespaces/default/pods/a/log", json!({})).await.code, 404);
    assert_eq!(delete(&server, "/api/v1/watch/namespaces/default/pods/a").await.code, 405);
}

/// Like kube-apiserver, the server converts the annotation with the template generation to a number.
#[tokio::test]
async fn daemon_set_template_generation_is_counted_as_in_go() {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let server = server().await;
    let path = "/apis/apps/v1/namespaces/default/daemonsets";
    let generation = |sent: &str| json!({"annotations": {(ANNOTATION): sent}});
    let made = async |name: &str, sent: &str| {
        let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
        let spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": pod});
        let mut metadata = generation(sent);
        metadata["name"] = name.into();
        call(&server, Method::POST, path, json!({"metadata": metadata, "spec": spec})).await
    };
    let stored_generation = |object: &Json| object["metadata"]["annotations"][ANNOTATION].clone();
    for (name, sent, stored) in [("a", "5", "5"), ("b", "0", "1"), ("c", "-3", "1"), ("d", "+7", "7")] {
        assert_eq!(stored_generation(&made(name, sent).await.body), stored, "{sent}");
    }
    for (sent, why) in [("x", "invalid syntax"), ("", "invalid syntax"), ("9223372036854775808", "value out of range")]
    {
        let why = format!(
            "DaemonSet in version \"v1\" cannot be handled as a DaemonSet: strconv.ParseInt: parsing \"{sent}\": {why}"
        );
        let refused = made("refused", sent).await;
        assert_eq!((refused.code, &refused.body["message"]), (400, &json!(why)));
    }
    // For most requests, the server converts the annotation when it decodes the body. For a strategic patch or an apply
    // request, the server converts the annotation in the result.
    let why = "strconv.ParseInt: parsing \"x\": invalid syntax";
    let whole = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": generation("x")}).to_string();
    let added = json!([{"op": "add", "path": format!("/metadata/annotations/{ANNOTATION}"), "value": "x"}]).to_string();
    for (media, body, code, begins, at) in [
        ("merge-patch+json", &whole, 422, " \"\" is invalid: patch: Invalid value: ", "a"),
        ("json-patch+json", &added, 422, " \"\" is invalid: patch: Invalid value: ", "a"),
        ("merge-patch+json", &whole, 422, " \"\" is invalid: patch: Invalid value: ", "a/status"),
        ("strategic-merge-patch+json", &whole, 500, why, "a"),
        ("apply-patch+yaml", &whole, 500, "failed to convert to unversioned (/; apps/v1, Kind=DaemonSet): ", "a"),
        ("apply-patch+yaml", &whole, 500, "failed to convert to unversioned (/; apps/v1, Kind=DaemonSet): ", "none"),
    ] {
        let (media, path) = (format!("application/{media}"), format!("{path}/{at}?fieldManager=m&force=true"));
        let path = if media.contains("apply") { path } else { path.replace("&force=true", "") };
        let refused = read(send(&server, Method::PATCH, &path, &[("content-type", &media)], body).await).await;
        let text = refused.body["message"].as_str().expect("a message");
        assert_eq!((refused.code, text.starts_with(begins), text.ends_with(why)), (code, true, true), "{path}: {text}");
    }
    let most = i64::MAX.to_string();
    let patch = async |path: &str, patch: Json| call(&server, Method::PATCH, path, patch).await;
    for path in [format!("{path}/a/status"), format!("{path}/a")] {
        for metadata in [generation(&most), json!({"annotations": null})] {
            let patched = patch(&path, json!({"metadata": metadata})).await;
            assert_eq!((patched.code, stored_generation(&patched.body)), (200, "5".into()), "{path}");
        }
    }
    let other = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}});
    assert_eq!(stored_generation(&patch(&format!("{path}/a"), other.clone()).await.body), "6");
    assert_eq!(stored_generation(&made("last", &most).await.body), most.as_str());
    let refused = patch(&format!("{path}/last"), other).await;
    let field = "spec.templateGeneration: Invalid value: -9223372036854775808: must";
    let why = format!(
        "DaemonSet.apps \"last\" is invalid: [{field} not be decremented, {field} be greater than or equal to 0]"
    );
    assert_eq!((refused.code, &refused.body["message"]), (422, &json!(why)));
}

#[tokio::test]
async fn maximum_generation_wraps_around_as_in_go() {
    let server = server().await;
    let metadata = json!({"name": "a", "generation": i64::MAX, "finalizers": ["example.com/a"]});
    assert_eq!(call(&server, Method::POST, CONFIG_MAPS, json!({"metadata": metadata})).await.code, 201);
    let deleted = delete(&server, &format!("{CONFIG_MAPS}/a")).await;
    assert_eq!((deleted.code, &deleted.body["metadata"]["generation"]), (200, &json!(i64::MIN)));
}

//! Tests of lists whose bodies are sent in several parts.

use std::io::Read;

use crate::support::*;
use flate2::read::GzDecoder;
use http::Method;
use http_body_util::BodyExt;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

/// The number of objects in the test. A list of all these objects is larger than the buffers of a connection that the
/// client does not read.
const MAPS: usize = 80;
const EACH: usize = 250_000;

async fn server() -> ApiServer {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    for number in 0..MAPS {
        let name = format!("m{number:02}");
        let object = json!({"metadata": {"name": name, "labels": {"n": name}}, "data": {"k": "x".repeat(EACH)}});
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object).await.code, 201);
    }
    server
}

fn names(list: &Json) -> Vec<&str> {
    let items = list["items"].as_array().expect("items").iter();
    items.filter_map(|item| item["metadata"]["name"].as_str()).filter(|name| name.starts_with('m')).collect()
}

#[tokio::test]
async fn long_list_is_a_snapshot_despite_concurrent_writes() {
    let server = server().await;
    let mut body = send(&server, Method::GET, CONFIG_MAPS, &[], "").await.into_body();
    let first = body.frame().await.expect("a first part").expect("it comes").into_data().expect("data");
    for number in (0..MAPS).step_by(2) {
        delete(&server, &format!("{CONFIG_MAPS}/m{number:02}")).await;
        patch_map(&server, &format!("m{:02}", number + 1), json!({"data": {"k": "short"}})).await;
        create_map(&server, &format!("m{number:02}a"), json!({})).await;
    }
    let rest = body.collect().await.expect("the rest").to_bytes();
    let list: Json = serde_json::from_slice(&[first, rest].concat()).expect("a list");
    assert_eq!(names(&list), (0..MAPS).map(|number| format!("m{number:02}")).collect::<Vec<_>>());
    let list_version = version(&list);
    for item in list["items"].as_array().expect("items") {
        assert!(version(item) <= list_version, "{}", item["metadata"]);
        assert_ne!(item["data"]["k"], "short");
    }
}

#[tokio::test]
async fn pretty_and_yaml_lists_have_the_same_content() {
    let server = server().await;
    let plain = get(&server, CONFIG_MAPS).await.body;
    let pretty = send(&server, Method::GET, &format!("{CONFIG_MAPS}?pretty=true"), &[], "").await;
    let mut pretty = pretty.into_body();
    let first = pretty.frame().await.expect("a first part").expect("it comes").into_data().expect("data");
    assert!(first.len() < 2 * EACH, "{} bytes at once", first.len());
    let rest = pretty.collect().await.expect("the rest").to_bytes();
    let text = String::from_utf8([first, rest].concat()).expect("text");
    assert_eq!(serde_json::from_str::<Json>(&text).expect("a list"), plain);
    assert!(text.starts_with("{\n  \"kind\": \"ConfigMapList\",\n  \"apiVersion\": \"v1\",\n"), "{}", &text[..100]);
    assert!(text.ends_with("\n    }\n  ]\n}"), "{}", &text[text.len() - 100..]);

    let yaml = [("accept", "application/yaml")];
    for path in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}?labelSelector=none")] {
        let plain = get(&server, &path).await.body;
        let text = send(&server, Method::GET, &path, &yaml, "").await.into_body().collect().await.expect("a body");
        let listed = pintle_schema::yaml_documents(std::str::from_utf8(&text.to_bytes()).expect("text")).next();
        assert_eq!(listed.expect("a document").expect("YAML"), plain);
    }
}

#[tokio::test]
async fn long_list_is_equal_when_compressed_paged_or_selected() {
    let server = server().await;
    let plain = get(&server, CONFIG_MAPS).await.body;
    let zipped = send(&server, Method::GET, CONFIG_MAPS, &[("accept-encoding", "gzip")], "").await;
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let zipped = zipped.into_body().collect().await.expect("a body").to_bytes();
    let mut text = String::new();
    GzDecoder::new(&*zipped).read_to_string(&mut text).expect("gzip");
    assert_eq!(serde_json::from_str::<Json>(&text).expect("a list"), plain);
    let (mut paged, mut at) = (Vec::new(), String::new());
    loop {
        let page = get(&server, &format!("{CONFIG_MAPS}?limit=7&continue={at}")).await.body;
        paged.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(next) => at = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(paged, names(&plain));
    let selected = get(&server, &format!("{CONFIG_MAPS}?labelSelector=n+in+(m01,m40,m79)")).await.body;
    assert_eq!(names(&selected), ["m01", "m40", "m79"]);
}

async fn unzipped(server: &ApiServer, accept: &str) -> Vec<u8> {
    let headers = [("accept", accept), ("accept-encoding", "gzip")];
    let zipped = send(server, Method::GET, CONFIG_MAPS, &headers, "").await;
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let zipped = zipped.into_body().collect().await.expect("a body").to_bytes();
    let mut plain = Vec::new();
    // Like many clients, this decoder reads only the first gzip member.
    let mut decoder = GzDecoder::new(&*zipped);
    decoder.read_to_end(&mut plain).expect("gzip");
    assert!(decoder.into_inner().is_empty(), "one member");
    assert!(zipped.len() < plain.len() / 5, "{} of {}", zipped.len(), plain.len());
    plain
}

#[tokio::test]
async fn compressed_lists_are_current_despite_cached_parts() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    for number in 0..1_000 {
        let object = json!({"metadata": {"name": format!("m{number:04}")}, "data": {"key": "value"}});
        assert_eq!(call(&server, Method::POST, CONFIG_MAPS, object).await.code, 201);
    }
    let changes = ["", "m0300", "m0999", "m0301"];
    for name in changes {
        if !name.is_empty() {
            patch_map(&server, name, json!({"data": {"key": "new"}})).await;
            delete(&server, &format!("{CONFIG_MAPS}/m05{}", &name[3..])).await;
        }
        for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
            let plain = send(&server, Method::GET, CONFIG_MAPS, &[("accept", accept)], "").await;
            let plain = plain.into_body().collect().await.expect("a body").to_bytes();
            for _ in 0..2 {
                assert!(unzipped(&server, accept).await == plain, "{accept} {name}");
            }
        }
    }
    let listed = get(&server, CONFIG_MAPS).await.body;
    let new = listed["items"].as_array().expect("items").iter().filter(|item| item["data"]["key"] == "new");
    assert_eq!((new.count(), names(&listed).len()), (3, 997));
}

#[tokio::test]
async fn long_table_is_a_snapshot_despite_concurrent_writes() {
    let server = server().await;
    let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let path = format!("{CONFIG_MAPS}?includeObject=Object");
    let mut body = send(&server, Method::GET, &path, &accept, "").await.into_body();
    let first = body.frame().await.expect("a first part").expect("it comes").into_data().expect("data");
    assert!(first.len() < 2 * EACH, "{} bytes at once", first.len());
    for number in 0..MAPS {
        patch_map(&server, &format!("m{number:02}"), json!({"data": {"k": "short"}})).await;
    }
    let rest = body.collect().await.expect("the rest").to_bytes();
    let table: Json = serde_json::from_slice(&[first, rest].concat()).expect("a table");
    let rows = table["rows"].as_array().expect("rows").iter();
    let objects: Vec<_> = rows.map(|row| &row["object"]).filter(|object| object["data"]["k"].is_string()).collect();
    assert_eq!(objects.len(), MAPS);
    assert!(objects.iter().all(|object| object["data"]["k"] != "short"));
}

#[tokio::test]
async fn tables_and_metadata_lists_respect_selectors_and_limits() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let listed = |form: &str, path: &str| {
        let (accept, path) = (format!("application/{form};g=meta.k8s.io;v=v1"), path.to_owned());
        let server = &server;
        async move { read(send(server, Method::GET, &path, &[("accept", &accept)], "").await).await.body }
    };
    create_map(&server, "a", json!({"n": "1"})).await;
    create_map(&server, "b", json!({"n": "1"})).await;
    for (query, expected) in [("labelSelector=n", 2), ("labelSelector=n&limit=1", 1), ("labelSelector=m", 0)] {
        let path = format!("{CONFIG_MAPS}?{query}");
        let table = listed("json;as=Table", &path).await;
        assert_eq!(table["rows"].as_array().map(Vec::len), Some(expected), "{query}");
        let metadata = listed("json;as=PartialObjectMetadataList", &path).await;
        assert_eq!(metadata["items"].as_array().map_or(0, Vec::len), expected, "{query}");
        assert_eq!(metadata["metadata"], table["metadata"], "{query}");
    }
    let yaml = listed("yaml;as=Table", CONFIG_MAPS).await;
    assert!(yaml.as_str().is_some_and(|text| text.contains("kind: Table")), "{yaml}");
}

#[tokio::test(start_paused = true)]
async fn continue_token_with_a_future_revision_times_out() {
    use base64::Engine;
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let token = |revision: u64| {
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": "/m\u{0}"}).to_string();
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token)
    };
    const LAST: u64 = i64::MAX as u64;
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    for (path, revision, code, seconds, retry) in [
        (CONFIG_MAPS, LAST, 504, 3, Some(1)),
        (CONFIG_MAPS, 4_000_000_000, 504, 3, Some(1)),
        (EVENTS, LAST, 504, 0, None),
        (CONFIG_MAPS, LAST + 1, 400, 0, None),
    ] {
        let began = tokio::time::Instant::now();
        let answer = get(&server, &format!("{path}?continue={}", token(revision))).await;
        assert_eq!((answer.code, began.elapsed().as_secs()), (code, seconds), "{path} {revision}: {:?}", answer.body);
        assert_eq!(answer.body["details"]["retryAfterSeconds"].as_u64(), retry, "{path} {revision}");
    }
}

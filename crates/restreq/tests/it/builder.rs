//! Tests of the URLs, headers and errors of requests that are not sent.

use std::time::Duration;

use pintle_meta::{ClientConfig, GroupVersion};
use pintle_restreq::{InvalidRequest, Request, RestClient, RestClientConfig};
use serde_json::json;

use crate::support::{Server, soon};

fn client(server: &str) -> RestClient {
    RestClient::new(ClientConfig::new(server)).unwrap()
}

fn path(build: impl FnOnce(RestClient) -> Request) -> String {
    let request = build(client("http://host"));
    assert!(request.error().is_none(), "{request:?}");
    request.url().strip_prefix("http://host").unwrap().to_owned()
}

#[test]
fn url_has_all_parts_in_order() {
    for (build, expected) in [
        ((|r| r) as fn(Request) -> Request, "/"),
        (|r| r.resource("Pods"), "/pods"),
        (|r| r.namespace("").resource("pods"), "/pods"),
        (|r| r.namespace("ns").resource("pods"), "/namespaces/ns/pods"),
        (|r| r.namespace_if_scoped("ns", false).resource("nodes"), "/nodes"),
        (|r| r.resource("pods").namespace("ns").name("a").subresource(["proxy", "x"]), "/namespaces/ns/pods/a/proxy/x"),
        (|r| r.resource("pods").subresource(["log"]).suffix(["tail"]), "/pods/log/tail"),
        (|r| r.resource("roles").name("system:node admin"), "/roles/system:node%20admin"),
        (
            |r| {
                let r = r.abs_path(["/test/"]).name("bar").resource("baz").namespace("foo");
                r.suffix(["test"]).subresource(["a", "b"])
            },
            "/test/namespaces/foo/baz/bar/a/b/test",
        ),
        (|r| r.abs_path(["/test/"]).name("bar").resource("baz").namespace("foo"), "/test/namespaces/foo/baz/bar"),
        (|r| r.abs_path(["foo/bar", "baz"]), "/foo/bar/baz"),
        (|r| r.abs_path(["/foo/"]), "/foo/"),
        (|r| r.abs_path(["/foo/"]).resource("pods"), "/foo/pods"),
        (|r| r.prefix(["a", "b"]).resource("pods"), "/a/b/pods"),
    ] {
        assert_eq!(path(|client| build(client.get())), expected);
    }
}

#[test]
fn group_version_becomes_the_path_prefix() {
    let apps = GroupVersion::new("apps", "v1");
    assert_eq!(
        path(|client| client.for_group_version(&apps).get().resource("deployments")),
        "/apis/apps/v1/deployments"
    );
    let core = GroupVersion::new("", "v1");
    let prefixed = client("http://host/prefix").for_group_version(&core).get().resource("pods");
    assert_eq!(prefixed.url(), "http://host/prefix/api/v1/pods");
}

#[test]
fn abs_path_is_relative_to_the_server_path() {
    for (base, prefix, argument, expected) in [
        ("/", "", "", "/"),
        ("", "", "/", "/"),
        ("", "", "/api", "/api"),
        ("", "", "/api/", "/api/"),
        ("", "/foo", "/bar/foo", "/bar/foo"),
        ("/p1", "", "", "/p1"),
        ("/p1", "", "/", "/p1/"),
        ("/p1/", "", "/", "/p1/"),
        ("/p1", "", "/apis", "/p1/apis"),
        ("/p1", "/foo", "/apis", "/p1/apis"),
        ("/p1", "/foo", "/apis/", "/p1/apis/"),
        ("/p1/api/p2", "", "/", "/p1/api/p2/"),
        ("/p1/api/p2", "", "/api", "/p1/api/p2/api"),
        ("/p1/api/p2", "/x", "/api/", "/p1/api/p2/api/"),
    ] {
        let request = client(&format!("http://host{base}")).get().prefix([prefix]).abs_path([argument]);
        assert_eq!(request.url(), format!("http://host{expected}"), "{base} {prefix} {argument}");
    }
}

#[test]
fn parameters_are_sorted_and_keep_repeated_values() {
    let url = path(|client| {
        client.get().param("b", "2").param("a", "x y").param("b", "1").timeout(Duration::from_millis(1500))
    });
    assert_eq!(url, "/?a=x%20y&b=2&b=1&timeout=1.5s");
    assert_eq!(path(|client| client.get().param("timeout", "42")), "/?timeout=42");
    assert_eq!(path(|client| client.get().param("timeout", "42").timeout(Duration::from_secs(60))), "/?timeout=1m0s");
    assert_eq!(path(|client| client.get().timeout(Duration::from_secs(1)).timeout(Duration::ZERO)), "/");
}

#[test]
fn options_object_becomes_parameters() {
    let options = json!({"limit": 5, "continue": "t", "watch": true, "none": null, "many": ["a", "b"]});
    let url = path(|client| client.get().param("limit", "1").options(&options));
    assert_eq!(url, "/?continue=t&limit=1&limit=5&many=a&many=b&watch=true");
    let request = client("http://host").get().options(&json!({"nested": {}}));
    assert!(matches!(request.error(), Some(InvalidRequest::Encode { .. })), "{request:?}");
    let request = client("http://host").get().options(&"text");
    assert!(matches!(request.error(), Some(InvalidRequest::Encode { .. })), "{request:?}");
}

#[test]
fn request_uri_replaces_path_and_parameters() {
    let uri = "/test?foo=b&a=b&c=1&c=2";
    assert_eq!(path(|client| client.get().param("old", "x").request_uri(uri)), "/test?a=b&c=1&c=2&foo=b");
    assert_eq!(path(|client| client.get().param("old", "x").request_uri("/test")), "/test");
    assert_eq!(client("http://host/context").get().request_uri("/test").url(), "http://host/context/test");
    assert_eq!(path(|client| client.get().request_uri("../test")), "/test");
    assert_eq!(path(|client| client.get().request_uri("https://other/a%20b?x=%26")), "/a%20b?x=%26");
    let broken = client("http://host").get().request_uri("/%ff");
    assert!(matches!(broken.error(), Some(InvalidRequest::Uri { .. })), "{broken:?}");
}

#[test]
fn request_uri_cannot_leave_its_path() {
    let server = "http://host/clusters/c-1";
    for uri in [
        "/api/v1/namespaces/a/%2e%2e/kube-system/secrets/x",
        "/api/v1/namespaces/a/.%2E/kube-system/secrets/x",
        "/api/v1/namespaces/a/pods/..%2F..%2Fkube-system%2Fsecrets%2Fx",
        "/..%2fc-2/api/v1/secrets",
        "/api/v1/namespaces/a/%2e/secrets/x",
    ] {
        let request = client(server).get().request_uri(uri);
        assert!(matches!(request.error(), Some(InvalidRequest::Uri { .. })), "{uri}: {request:?}");
    }
    for (uri, expected) in [
        ("/../../c-2/api", "/c-2/api"),
        ("../../c-2/", "/c-2/"),
        ("/proxy/fetch/http://other/x", "/proxy/fetch/http:/other/x"),
        ("/a%20b", "/a%20b"),
        ("https://other", ""),
    ] {
        assert_eq!(client(server).get().request_uri(uri).url(), format!("{server}{expected}"), "{uri}");
    }
}

#[test]
fn identity_setters_work_only_once() {
    for (part, build) in [
        ("name", (|r| r.name("a").name("b")) as fn(Request) -> Request),
        ("namespace", |r| r.namespace("a").namespace("b")),
        ("resource", |r| r.resource("a").resource("b")),
        ("subresource", |r| r.subresource(["a"]).subresource(["b"])),
    ] {
        let request = build(client("http://host").get());
        let message = request.error().unwrap().to_string();
        assert_eq!(message, format!("{part} is already set to \"a\", and cannot be changed to \"b\""));
        assert!(request.url().contains("/a") || part == "namespace" || part == "resource", "{}", request.url());
    }
}

#[test]
fn segment_cannot_change_the_meaning_of_the_url() {
    for segment in [".", "..", "a/b", "a%2fb"] {
        for build in [
            (|r, s| Request::namespace(r, s)) as fn(Request, &str) -> Request,
            |r, s| r.resource(s),
            |r, s| r.name(s),
            |r, s| r.subresource(["fine", s]),
        ] {
            let request = build(client("http://host").get(), segment);
            assert!(matches!(request.error(), Some(InvalidRequest::Segment { .. })), "{segment} {request:?}");
        }
    }
    assert!(client("http://host").get().name("").error().is_some());
    assert!(client("http://host").get().namespace("").error().is_none());
}

#[tokio::test]
async fn first_setter_error_is_kept_and_nothing_is_sent() {
    let server = Server::start([]).await;
    let request = server.client().get().name("a").name("b");
    let before = request.url();
    let request = request
        .timeout(Duration::from_secs(1))
        .prefix(["x"])
        .suffix(["x"])
        .resource("x/y")
        .name("x")
        .namespace("x")
        .subresource(["x"])
        .abs_path(["x"])
        .request_uri("/x")
        .param("x", "y")
        .body("x")
        .body_file("/nonexistent");
    assert_eq!(request.url(), before);
    for error in [
        request.send().await.map(drop).unwrap_err(),
        request.raw().await.map(drop).unwrap_err(),
        request.object::<serde_json::Value>().await.map(drop).unwrap_err(),
        request.stream().await.map(drop).unwrap_err(),
        request.watch::<serde_json::Value>().await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(error.cause(), Some(InvalidRequest::AlreadySet { part: "name", .. })), "{error}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn empty_namespace_is_valid_only_for_lists() {
    let server = Server::start([]).await;
    let client = server.client();
    let post = client.post().namespace("").resource("pods");
    for request in [
        post.clone(),
        client.get().namespace("").resource("pods").name("a"),
        client.put().namespace("").resource("pods").name("a"),
        client.delete().namespace("").resource("pods").name("a"),
    ] {
        let error = request.send().await.unwrap_err();
        assert!(matches!(error.cause(), Some(InvalidRequest::EmptyNamespace)), "{error}");
    }
    soon(client.get().namespace("").resource("pods").send()).await.unwrap();
    soon(client.post().namespace("a").resource("pods").send()).await.unwrap();
    soon(client.post().resource("nodes").send()).await.unwrap();
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn body_may_be_file_bytes_stream_or_object() {
    let server = Server::start([]).await;
    let client = server.client();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from a file").unwrap();
    let stream = futures_util::stream::iter(["from ", "a stream"].map(|chunk| Ok(bytes::Bytes::from(chunk))));
    for (request, body, kind) in [
        (client.post().body_file(file.path()), "from a file", None),
        (client.post().body("bytes"), "bytes", None),
        (client.post().body_stream(stream), "from a stream", None),
        (client.post().json(&json!({"a": 1})), "{\"a\":1}", Some("application/json")),
        (client.patch("application/merge-patch+json").json(&json!({})), "{}", Some("application/merge-patch+json")),
        (client.post().json(&None::<u8>), "", None),
        (client.post().body("first").json(&json!(2)), "2", Some("application/json")),
    ] {
        soon(request.send()).await.unwrap();
        let seen = server.seen().pop().unwrap();
        assert_eq!((&seen.body[..], seen.header("content-type")), (body.as_bytes(), kind), "{request:?}");
    }
    let missing = client.post().body_file("/nonexistent/body");
    let error = missing.send().await.unwrap_err().to_string();
    assert!(error.contains("/nonexistent/body"), "{error}");
}

#[tokio::test]
async fn default_accept_and_user_agent_yield_to_set_headers() {
    let server = Server::start([]).await;
    soon(server.client().get().send()).await.unwrap();
    let custom =
        RestClient::new(RestClientConfig { accept: "application/x".into(), ..server.config().into() }).unwrap();
    soon(custom.get().header("user-agent", "me").send()).await.unwrap();
    soon(custom.get().header("accept", "a").header("accept", "b").send()).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[0].header("accept"), Some("application/json, */*"));
    let agent = seen[0].header("user-agent").unwrap();
    assert!(agent.starts_with("it-") && agent.contains('/') && agent.contains('('), "{agent}");
    assert_eq!((seen[1].header("accept"), seen[1].header("user-agent")), (Some("application/x"), Some("me")));
    assert_eq!(seen[2].header("accept"), Some("b"));
}

#[test]
fn errors_name_the_request_without_secrets() {
    let request = client("http://me:hush@host").get().param("token", "hush").param("limit", "5").name("a").name("b");
    let shown = format!("{request:?}");
    assert!(!shown.contains("hush"), "{shown}");
    assert!(shown.contains("GET http://host/a?limit=5&token=[redacted]"), "{shown}");
    let header = client("http://host").get().header("bad header", "x");
    assert!(matches!(header.error(), Some(InvalidRequest::Header { .. })));
}

#[test]
fn invalid_configuration_is_rejected_with_its_field() {
    let check = |change: fn(&mut ClientConfig), part: &str| {
        let mut config = ClientConfig::new("https://host");
        change(&mut config);
        let error = RestClient::new(config).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    };
    use pintle_meta::{BasicAuth, Impersonate, PemSource, Secret};
    check(|c| c.server = "host/path".into(), "server");
    check(|c| c.server = String::new(), "server");
    check(|c| c.user_agent = Some("a\nb".into()), "user_agent");
    check(|c| c.token = Some(Secret::new("a\nb")), "token");
    check(|c| c.tls.ca = Some(PemSource::Inline(b"garbage".to_vec())), "tls.ca");
    check(|c| c.tls.ca = Some(PemSource::File("/nonexistent/ca".into())), "/nonexistent/ca");
    check(|c| c.tls.certificate = Some(PemSource::Inline(b"x".to_vec())), "tls.key");
    check(|c| c.tls.key = Some(PemSource::Inline(b"x".to_vec())), "tls.certificate");
    check(
        |c| c.impersonate = Some(Impersonate { uid: Some("7".into()), ..Impersonate::default() }),
        "impersonate.user",
    );
    check(
        |c| {
            c.token = Some(Secret::new("t"));
            c.basic = Some(BasicAuth { username: "a".into(), password: Secret::new("b") });
        },
        "exclude",
    );
    check(
        |c| {
            c.tls.ca = Some(PemSource::Inline(Vec::new()));
            c.tls.insecure_skip_verify = true;
        },
        "tls.insecure_skip_verify",
    );
}

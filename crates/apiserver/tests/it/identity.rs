//! Tests of authentication and impersonation.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::*;

const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Starts a server with two users: an administrator with the token `root`, and bob with the token `weak` and no
/// permissions.
pub(crate) async fn server() -> ApiServer {
    server_with(ApiServerConfig::default()).await
}

pub(crate) async fn server_with(config: ApiServerConfig) -> ApiServer {
    let unique = fastrand::u64(..);
    let path = std::env::temp_dir().join(format!("pintle-identity-{unique:x}.csv"));
    let tokens = "root,root,1,\"system:masters\"\nweak,bob,2,users\ntwice,eve,3,\"system:authenticated\"\n";
    std::fs::write(&path, tokens).expect("a file");
    let config = ApiServerConfig { token_auth_file: Some(path.clone()), ..config };
    let started = ApiServer::start(config).await;
    std::fs::remove_file(&path).expect("the file");
    started.expect("a server")
}

pub(crate) async fn send_as(
    server: &ApiServer,
    token: &str,
    method: Method,
    path: &str,
    headers: Headers<'_>,
    body: Json,
) -> Answer {
    let bearer = format!("Bearer {token}");
    let mut all = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
    all.extend_from_slice(headers);
    let text = if body.is_null() { String::new() } else { body.to_string() };
    read(send(server, method, path, &all, &text).await).await
}

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

pub(crate) async fn who_am_i(server: &ApiServer, token: &str, headers: Headers<'_>) -> Answer {
    send_as(server, token, Method::POST, WHO_AM_I, headers, json!({})).await
}

pub(crate) async fn grant(server: &ApiServer, namespace: &str, name: &str, rules: Json) {
    let (place, role, binding) = match namespace {
        "" => (RBAC.to_owned(), "ClusterRole", "clusterrolebindings"),
        namespace => (format!("{RBAC}/namespaces/{namespace}"), "Role", "rolebindings"),
    };
    let rules = json!({"metadata": {"name": name}, "rules": rules});
    let roles = format!("{place}/{}s", role.to_lowercase());
    let made = send_as(server, "root", Method::POST, &roles, &[], rules).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    bind(server, &format!("{place}/{binding}"), role, name).await;
}

async fn bind(server: &ApiServer, bindings: &str, kind: &str, role: &str) {
    let binding = json!({
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    let made = send_as(server, "root", Method::POST, bindings, &[], binding).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
}

#[tokio::test]
async fn websocket_subprotocol_carries_a_bearer_token() {
    const UPGRADE: Headers<'_> = &[
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("origin", "http://a"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
    ];
    let server = server().await;
    let watch = format!("{CONFIG_MAPS}?watch=1");
    let offered = async |path: &str, protocols: &[&str], more: Headers<'_>| {
        let protocols: Vec<_> = protocols.iter().map(|offer| ("sec-websocket-protocol", *offer)).collect();
        let answer = send(&server, Method::GET, path, &[UPGRADE, &protocols, more].concat(), "").await;
        let spoken =
            answer.headers().get("sec-websocket-protocol").map(|spoken| spoken.to_str().expect("a text").to_owned());
        (answer.status().as_u16(), spoken)
    };
    let token = |text: &str| format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(text));
    let [root, weak, wrong] = &["root", "weak", "nobody"].map(token);
    let [root, weak, wrong] = [root, weak, wrong].map(String::as_str);
    let (a, lone) = (Some("a".to_owned()), None);
    // A client can send the subprotocols as a list in one header, or in separate headers.
    assert_eq!(offered(&watch, &[&format!("a, {root}")], &[]).await, (101, a.clone()));
    assert_eq!(offered(&watch, &[root, "a"], &[]).await, (101, a.clone()));
    assert_eq!(offered(&watch, &[weak, "a"], &[]).await, (403, lone.clone()));
    let bearer: Headers<'_> = &[("authorization", "Bearer nobody")];
    assert_eq!(offered(&watch, &[root, "a"], bearer).await, (101, a), "one of two tokens is enough");
    let bad = "base64url.bearer.authorization.k8s.io.%";
    for refused in [&[wrong, "a"][..], &[root], &[root, root, "a"], &[bad, "a"]] {
        assert_eq!(offered(&watch, refused, &[]).await, (401, lone.clone()), "{refused:?}");
    }
    // A token in the subprotocols is valid only for WebSocket requests.
    let exec = "/api/v1/namespaces/default/pods/none/exec?command=ls";
    assert_eq!(offered(exec, &[root, "v5.channel.k8s.io"], &[]).await.0, 404);
    assert_eq!(offered(exec, &[weak, "v5.channel.k8s.io"], &[]).await.0, 403);
    let plain = send(&server, Method::GET, CONFIG_MAPS, &[("sec-websocket-protocol", root)], "").await;
    assert_eq!(read(plain).await.code, 403, "an anonymous request");
}

#[tokio::test]
async fn binding_to_a_missing_role_grants_no_impersonation() {
    let server = server().await;
    bind(&server, &format!("{RBAC}/clusterrolebindings"), "ClusterRole", "lost").await;
    let secrets = "/api/v1/secrets";
    assert_eq!(send_as(&server, "weak", Method::GET, secrets, &[], Json::Null).await.code, 403);
    for headers in [
        &[("impersonate-user", "x"), ("impersonate-group", "system:masters")][..],
        &[("impersonate-user", "root")],
        &[("impersonate-user", "system:serviceaccount:default:a"), ("impersonate-group", "system:masters")],
    ] {
        let answer = send_as(&server, "weak", Method::GET, secrets, headers, Json::Null).await;
        assert_eq!((answer.code, &answer.body["reason"]), (403, &json!("Forbidden")), "{headers:?} {:?}", answer.body);
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(message.contains(r#"clusterrole.rbac.authorization.k8s.io "lost" not found"#), "{message}");
    }
}

#[tokio::test]
async fn each_impersonated_attribute_needs_its_own_right() {
    let server = server().await;
    let rule = |group: &str, resource: &str, name: &str| {
        let (groups, resources, names) = ([group], [resource], [name]);
        json!([{"verbs": ["impersonate"], "apiGroups": groups, "resources": resources, "resourceNames": names}])
    };
    grant(&server, "", "user", rule("", "users", "x")).await;
    let user = ("impersonate-user", "x");
    let answer = who_am_i(&server, "weak", &[user]).await;
    assert_eq!(answer.body["status"]["userInfo"], json!({"username": "x", "groups": ["system:authenticated"]}));

    let authentication = "authentication.k8s.io";
    for (case, part, api_group, resource, name) in [
        ("group", ("impersonate-group", "ops"), "", "groups", "ops"),
        ("masters", ("impersonate-group", "system:masters"), "", "groups", "system:masters"),
        ("known", ("impersonate-group", "system:authenticated"), "", "groups", "system:authenticated"),
        ("accounts", ("impersonate-group", "system:serviceaccounts"), "", "groups", "system:serviceaccounts"),
        (
            "accounts-of",
            ("impersonate-group", "system:serviceaccounts:kube-system"),
            "",
            "groups",
            "system:serviceaccounts:kube-system",
        ),
        ("uid", ("impersonate-uid", "u-1"), authentication, "uids", "u-1"),
        ("extra", ("impersonate-extra-scopes", "view"), authentication, "userextras/scopes", "view"),
        ("path", ("impersonate-extra-e.com%2fTeam", "t"), authentication, "userextras/e.com/team", "t"),
    ] {
        let refused = who_am_i(&server, "weak", &[user, part]).await;
        let kind = resource.split('/').next();
        let details = (&refused.body["details"]["kind"], &refused.body["details"]["name"]);
        assert_eq!(refused.code, 403, "{case}");
        assert_eq!(details, (&json!(kind), &json!(name)), "{case}: {:?}", refused.body);
        assert_eq!(refused.body["details"]["group"], json!((!api_group.is_empty()).then_some(api_group)), "{case}");
        grant(&server, "", case, rule(api_group, resource, name)).await;
        let allowed = who_am_i(&server, "weak", &[user, part]).await;
        assert_eq!(allowed.code, 201, "{case}: {:?}", allowed.body);
        // A permission to impersonate one value, such as a user name, does not apply to other values.
        let other = who_am_i(&server, "weak", &[user, part, (part.0, "another")]).await;
        let takes_one = part.0 == "impersonate-uid";
        assert_eq!(other.code, if takes_one { 201 } else { 403 }, "{case}: {:?}", other.body);
    }
}

#[tokio::test]
async fn impersonated_service_account_is_namespaced_and_has_its_groups() {
    let server = server().await;
    let account = ("impersonate-user", "system:serviceaccount:default:a");
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["a"]}]);
    assert_eq!(who_am_i(&server, "weak", &[account]).await.code, 403);
    grant(&server, "kube-system", "elsewhere", rules.clone()).await;
    assert_eq!(who_am_i(&server, "weak", &[account]).await.code, 403, "a right in another namespace");
    grant(&server, "default", "here", rules).await;
    let answer = who_am_i(&server, "weak", &[account]).await;
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(answer.body["status"]["userInfo"]["groups"], groups, "{:?}", answer.body);
    // The server uses the groups of the service account only if the request contains no groups.
    let explicit = who_am_i(&server, "weak", &[account, ("impersonate-group", "system:serviceaccounts")]).await;
    assert_eq!((explicit.code, &explicit.body["details"]["kind"]), (403, &json!("groups")), "{:?}", explicit.body);
    // A malformed service account name is treated as an ordinary user name.
    for name in
        ["system:serviceaccount:default:a:b", "system:serviceaccount:default:", "system:serviceaccount:Default:a"]
    {
        let answer = who_am_i(&server, "weak", &[("impersonate-user", name)]).await;
        assert_eq!(answer.code, 403, "{name}");
        let answer = who_am_i(&server, "root", &[("impersonate-user", name)]).await;
        assert_eq!(answer.body["status"]["userInfo"]["groups"], json!(["system:authenticated"]), "{name}");
    }
}

#[tokio::test]
async fn impersonation_headers_need_a_user_in_any_order() {
    let server = server().await;
    let (user, group) = (("impersonate-user", "x"), ("impersonate-group", "g"));
    for headers in [[user, group], [group, user]] {
        let answer = who_am_i(&server, "root", &headers).await;
        assert_eq!(answer.body["status"]["userInfo"]["groups"], json!(["g", "system:authenticated"]), "{headers:?}");
    }
    let empty = ("impersonate-user", "");
    for part in [group, ("impersonate-group", ""), ("impersonate-uid", "u"), ("impersonate-extra-a", "")] {
        for headers in [&[part][..], &[empty, part], &[part, empty]] {
            let answer = who_am_i(&server, "root", headers).await;
            assert_eq!((answer.code, &answer.body["reason"]), (400, &json!("BadRequest")), "{headers:?}");
        }
    }
    assert_eq!(who_am_i(&server, "root", &[empty]).await.body["status"]["userInfo"]["username"], "root");
}

async fn raw(server: &ApiServer, headers: &[&[u8]]) -> u16 {
    let address = server.url().trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(address).await.expect("the server listens");
    let mut request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n").into_bytes();
    for header in headers {
        request.extend_from_slice(header);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    socket.write_all(&request).await.expect("a request");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.expect("an answer");
    let status = answer.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
    status.and_then(|code| code.parse().ok()).expect("a status")
}

#[tokio::test]
async fn non_ascii_impersonation_headers_are_not_ignored() {
    // On this server, all users except impersonated users are administrators.
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    assert_eq!(raw(&server, &[]).await, 200);
    assert_eq!(raw(&server, &["Impersonate-User: x\u{fc}".as_bytes()]).await, 403, "a user of that name");
    // As in kube-apiserver, invalid bytes become part of the user name, and no user has such a name.
    for (headers, code) in [
        (&[&b"Impersonate-User: \xff"[..]][..], 403),
        (&[b"Impersonate-User: x", b"Impersonate-User: \xff"], 403),
        (&[b"Impersonate-User: x", b"Impersonate-Group: system:masters"], 200),
        (&[b"Impersonate-User: \xff", b"Impersonate-Group: system:masters"], 200),
        (&[b"Impersonate-User: x", b"Impersonate-Group: \xff"], 403),
        (&[b"Impersonate-User: x", b"Impersonate-Group: system:masters\xff"], 403),
        (&[b"Impersonate-User: x", b"Impersonate-Uid: \xff"], 403),
        (&[b"Impersonate-User: x", b"Impersonate-Extra-a: \xff"], 403),
        (&[b"Impersonate-User: x", b"Impersonate-Extra-%ff: a"], 403),
        (&[b"Impersonate-Group: \xff"], 400),
        (&[b"Impersonate-Uid: \xff"], 400),
        (&[b"Impersonate-Extra-a: \xff"], 400),
    ] {
        assert_eq!(raw(&server, headers).await, code, "{headers:?}");
    }
    let server = self::server().await;
    assert_eq!(raw(&server, &[b"Authorization: Bearer \xff"]).await, 401, "an unknown token");
}

#[tokio::test]
async fn authenticated_group_is_not_duplicated() {
    let server = server().await;
    let own = server.client_config().token.expect("the server creates a token");
    for (token, groups) in [
        (own.expose(), json!(["system:masters", "system:authenticated"])),
        ("root", json!(["system:masters", "system:authenticated"])),
        ("weak", json!(["users", "system:authenticated"])),
        ("twice", json!(["system:authenticated"])),
    ] {
        assert_eq!(who_am_i(&server, token, &[]).await.body["status"]["userInfo"]["groups"], groups);
        let review = json!({"spec": {"token": token}});
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        let answer = send_as(&server, "root", Method::POST, reviews, &[], review).await;
        assert_eq!(answer.body["status"]["user"]["groups"], groups);
    }
}

#[tokio::test]
async fn front_proxy_headers_are_ignored() {
    // As in kube-apiserver, the server ignores `X-Remote-*` headers if no front proxy is configured.
    let server = server().await;
    let headers = [("x-remote-user", "root"), ("x-remote-group", "system:masters"), ("x-remote-extra-a", "b")];
    let answer = who_am_i(&server, "weak", &headers).await;
    assert_eq!(answer.body["status"]["userInfo"]["username"], "bob");
    let anonymous = send(&server, Method::GET, CONFIG_MAPS, &headers, "").await;
    assert_eq!(anonymous.status(), 403);
}

/// A WebSocket connection to a pod starts with a GET request, which requires the same permission to create as a POST
/// request.
#[tokio::test]
async fn exec_by_get_needs_the_right_to_create() {
    let server = server().await;
    let exec = "/api/v1/namespaces/default/pods/none/exec?command=ls";
    let rule = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": [verb]}]);
    grant(&server, "default", "getter", rule("get")).await;
    let refused = send_as(&server, "weak", Method::GET, exec, &[], Json::Null).await;
    assert_eq!((refused.code, refused.body["message"].as_str()), (403, Some("pods \"none\" is forbidden: ")));
    grant(&server, "default", "creator", rule("create")).await;
    let missed = send_as(&server, "weak", Method::GET, exec, &[], Json::Null).await;
    assert_eq!((missed.code, missed.body["message"].as_str()), (404, Some("pods \"none\" not found")));
}

#[tokio::test]
async fn encoded_path_needs_the_right_to_the_decoded_path() {
    let server = server().await;
    for (path, code) in [("/healthz", 200), ("/%68ealthz", 200), ("/%6detrics", 403), ("/healthz%2f..", 403)] {
        assert_eq!(send_as(&server, "weak", Method::GET, path, &[], Json::Null).await.code, code, "{path}");
    }
}

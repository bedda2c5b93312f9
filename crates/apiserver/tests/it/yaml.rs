//! Tests of YAML bodies that are expensive to parse, deeply nested, or contain strings that need quotes.

use http::Method;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_json::{Json, json};

use crate::support::*;

const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns YAML texts of a few hundred kilobytes that are slow to parse for simple parsers.
fn bombs() -> Vec<(&'static str, String)> {
    let laughs: String =
        (1..30).map(|at| format!("a{at}: &a{at} [{}]\n", format!("*a{},", at - 1).repeat(9))).collect();
    vec![
        ("lists", "[".repeat(300_000)),
        ("closed lists", "[".repeat(100_000) + &"]".repeat(100_000)),
        ("maps", "{a: ".repeat(100_000)),
        ("JSON", "{\"a\":".repeat(100_000)),
        ("maps on lines", "{a:\n".repeat(100_000)),
        ("keys", "{? ".repeat(100_000)),
        ("both", "[{".repeat(100_000)),
        ("items", "- ".repeat(300_000)),
        ("block keys", "? ".repeat(300_000)),
        ("items of keys", "- ? ".repeat(100_000)),
        ("members", (0..1_500).map(|at| format!("{}a:\n", " ".repeat(at))).collect()),
        ("tags", "!!seq [".repeat(100_000)),
        ("anchors", "&a [".repeat(100_000)),
        ("laughs", format!("a0: &a0 ha\n{laughs}")),
        ("copies", format!("- &a [{}]\n{}", "x,".repeat(30_000), "- *a\n".repeat(30_000))),
        ("directives", (0..100_000).map(|at| format!("%TAG !a{at}! b\n")).collect::<String>() + "---\n[]\n"),
        ("documents", "[]\n---\n".repeat(100_000)),
    ]
}

/// The test needs no explicit time limit, because a parser without linear run time would need hours for these texts.
#[tokio::test]
async fn yaml_bombs_are_rejected_in_linear_time() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let object = json!({"metadata": {"name": "c"}});
    assert_eq!(call(&server, Method::POST, CONFIGS, object).await.code, 201);
    let path = format!("{CONFIGS}/c");
    let ways = [
        (Method::POST, CONFIGS.to_owned(), "application/yaml"),
        (Method::PATCH, format!("{path}?fieldManager=m"), "application/apply-patch+yaml"),
        (Method::DELETE, path.clone(), "application/yaml"),
    ];
    for (what, text) in bombs() {
        for (method, path, media) in &ways {
            let answer = read(send(&server, method.clone(), path, &[("content-type", media)], &text).await).await;
            assert_eq!(answer.code, 400, "{what}, {method}: {:?}", answer.body["message"]);
        }
        assert!(server.load(&text).is_err(), "{what}");
    }
    assert_eq!(get(&server, &path).await.code, 200);
}

#[tokio::test]
async fn brackets_in_yaml_scalars_and_comments_are_not_nesting() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let brackets = "[{".repeat(100_000);
    let text = format!(
        "# {brackets}\nmetadata: {{name: c}} # {brackets}\ndata:\n  block: |\n    {brackets}\n    - - - -\n  folded: >-\n    {brackets}\n  \
         single: '{brackets}'\n  double: \"{brackets}\"\n  plain: x{brackets}\n"
    );
    let answer = read(send(&server, Method::POST, CONFIGS, &[("content-type", "application/yaml")], &text).await).await;
    assert_eq!(answer.code, 201, "{:?}", answer.body["message"]);
    let expected = json!({
        "block": format!("{brackets}\n- - - -\n"),
        "folded": brackets,
        "single": brackets,
        "double": brackets,
        "plain": format!("x{brackets}"),
    });
    assert_eq!(answer.body["data"], expected);
}

#[tokio::test]
async fn yaml_and_json_have_the_same_nesting_limit() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    for (media, too_deep) in [("application/yaml", "exceeded max depth"), ("application/json", "error")] {
        for (depth, expected) in [(127, "cannot unmarshal array"), (128, too_deep)] {
            let deep = (2..depth).fold(json!([]), |inner: Json, _| json!([inner]));
            let body = json!({"metadata": {"name": "c"}, "data": deep}).to_string();
            let answer = read(send(&server, Method::POST, CONFIGS, &[("content-type", media)], &body).await).await;
            let message = answer.body["message"].as_str().unwrap_or_default();
            assert_eq!((answer.code, message.contains(expected)), (400, true), "{media} {depth}: {message}");
            assert_eq!(message.contains("cannot unmarshal"), depth == 127, "{media} {depth}: {message}");
        }
    }
}

#[tokio::test]
async fn ambiguous_strings_are_quoted_in_yaml_responses() {
    let server = ApiServer::start(ApiServerConfig::default()).await.expect("a server");
    let data = json!({"a": "yes", "b": "no", "c": "on", "d": "off", "e": "2024-01-01", "n": "1", "f": "plain"});
    let made = call(&server, Method::POST, CONFIGS, json!({"metadata": {"name": "c"}, "data": data})).await;
    assert_eq!(made.code, 201, "{:?}", made.body);
    let answer =
        read(send(&server, Method::GET, &format!("{CONFIGS}/c"), &[("accept", "application/yaml")], "").await).await;
    let text = answer.body.as_str().expect("a text");
    let (_, data) = text.split_once("data:\n").expect("the data");
    let expected = [
        "  a: \"yes\"",
        "  b: \"no\"",
        "  c: \"on\"",
        "  d: \"off\"",
        "  e: \"2024-01-01\"",
        "  f: plain",
        "  \"n\": \"1\"",
    ];
    assert_eq!(data.lines().take(expected.len()).collect::<Vec<_>>(), expected, "{text}");
}

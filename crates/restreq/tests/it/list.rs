//! Tests of lists that are read item by item.

use std::time::Duration;

use pintle_meta::{ErrorKind, ListMeta, ListPart, RawObject, Reason};
use pintle_restreq::ListStream;

use crate::support::{End, Reply, Server, soon, steady_clock};

fn list(chunks: &[&'static str], end: End) -> Reply {
    Reply::watch(chunks, end)
}

async fn parts(mut stream: ListStream) -> Vec<String> {
    let mut parts = Vec::new();
    while let Some(part) = stream.next().await {
        parts.push(match part {
            Ok(ListPart::Item(RawObject::Json(json))) => String::from_utf8(json.to_vec()).unwrap(),
            Ok(ListPart::Item(RawObject::Oversized(found))) => format!("{}: {found}", found.key.as_ref().unwrap()),
            Ok(ListPart::Metadata(ListMeta { resource_version, .. })) => format!("at {resource_version}"),
            Err(error) => match error.kind {
                ErrorKind::Decode(cause) => format!("decode: {cause}"),
                ErrorKind::Status(status) => format!("status: {}", status.reason.unwrap()),
                ErrorKind::Timeout(cause) => format!("late: {cause}"),
                ErrorKind::Transport(_) => "cut".into(),
                other => panic!("{other:?}"),
            },
        });
    }
    parts
}

async fn check(reply: Reply, expected: &[&str]) {
    let server = Server::always(reply).await;
    let parts = parts(soon(server.narrow_client(50).get().list()).await.unwrap()).await;
    assert_eq!(parts.len(), expected.len(), "{parts:?}");
    assert!(
        parts.iter().zip(expected).all(|(parts, expected)| parts.starts_with(expected)),
        "{parts:?} for {expected:?}"
    );
}

#[tokio::test]
async fn items_stream_and_metadata_comes_last() {
    let (one, two) = (r#"{"a":1}"#, r#"{"b":[2]}"#);
    check(
        list(
            &[r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b""#, r#":[2]}]}"#],
            End::Proper,
        ),
        &[one, two, "at 7"],
    )
    .await;
    check(list(&[r#"{"items":[{"a":1}"#, r#"],"metadata":{"resourceVersion":"8"}}"#], End::Proper), &[one, "at 8"])
        .await;
    check(list(&[r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":null}"#], End::Proper), &["at 9"])
        .await;
}

#[tokio::test]
async fn null_in_list_metadata_means_empty() {
    check(list(&[r#"{"kind":null,"metadata":null,"items":[{"a":1}]}"#], End::Proper), &[r#"{"a":1}"#, "at "]).await;
    let meta = r#"{"kind":"PodList","metadata":{"resourceVersion":null,"continue":null,"remainingItemCount":null},"items":null}"#;
    check(list(&[meta], End::Proper), &["at "]).await;
}

/// A response that is not a list must always be an error, because an informer treats objects that are missing from a
/// list as deleted.
#[tokio::test]
async fn status_is_not_a_list() {
    for (body, expected) in [
        (r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#, "status: Expired"),
        (r#"{"items":[],"kind":"Status","apiVersion":"v1","metadata":null,"reason":"Expired"}"#, "status: Expired"),
        (r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#, "decode: expected a list, got kind \"Status\""),
        (r#"{"kind":"Status","status":"Success","items":[]}"#, "decode: expected a list, got kind \"Status\""),
        (r#"{"kind":"Status","code":"many","items":null}"#, "decode: expected a list, got kind \"Status\""),
    ] {
        check(list(&[body], End::Proper), &[expected]).await;
    }
    check(list(&[r#"{"kind":"ComponentStatusList","items":[{}]}"#], End::Proper), &["{}", "at "]).await;
}

#[tokio::test]
async fn incomplete_list_ends_in_an_error() {
    check(list(&[r#"{"items":[{"a":1},{"b"#], End::Cut), &[r#"{"a":1}"#, "cut"]).await;
    check(list(&[r#"{"items":[{"a":1},{"b"#], End::Proper), &[r#"{"a":1}"#, "decode: EOF"]).await;
    check(list(&[r#"{"kind":"Pod","metadata":{}}"#], End::Proper), &["decode: expected a list, got kind \"Pod\""])
        .await;
    check(list(&[], End::Proper), &["decode: the response has no body"]).await;
    let failure = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
    check(list(&[failure], End::Proper), &["status: Expired"]).await;
    let late = format!(
        r#"{{"apiVersion":"v1","code":410,"message":"{}","reason":"Expired","status":"Failure","kind":"Status"}}"#,
        "x".repeat(600)
    );
    check(list(&[late.leak()], End::Proper), &["status: Expired"]).await;
}

#[tokio::test]
async fn body_is_rejected_at_first_invalid_byte() {
    for (body, part, offset) in [
        (r#"{"items":[{"a":1} {"b":2}],"metadata":{}}"#, &[r#"{"a":1}"#][..], 18),
        (r#"{"items":[{"a":1},,{"b":2}],"metadata":{}}"#, &[r#"{"a":1}"#], 18),
        (r#"{"items":[,{"a":1}],"metadata":{}}"#, &[], 10),
        (r#"{"items":[{"a":1},],"metadata":{}}"#, &[r#"{"a":1}"#], 18),
        (r#"{"items":[{"a":tru}],"metadata":{}}"#, &[], 18),
        ("upstream connect error", &[], 0),
    ] {
        let refused = format!("decode: invalid JSON at byte {offset}");
        check(list(&[body], End::Proper), &[part, &[&refused]].concat()).await;
    }
    let server = Server::always(list(&["upstream connect error"], End::Proper)).await;
    let mut list = soon(server.client().get().abs_path(["/api/v1/pods"]).list()).await.unwrap();
    let error = list.next().await.unwrap().unwrap_err().to_string();
    assert!(error.starts_with(&format!("GET {}/api/v1/pods: ", server.url())), "{error}");
}

#[tokio::test]
async fn item_above_the_limit_is_reported_as_oversized() {
    let body = [
        r#"{"items":[{"a":1},{"metadata":{"name":"b","namespace":"ns"},"text":""#,
        "01234567890123456789012345678901234567890123456789",
        r#""},{"c":3}],"metadata":{"resourceVersion":"7"}}"#,
    ];
    let expected = [r#"{"a":1}"#, "ns/b: its size of 102 bytes exceeds the limit of 50", r#"{"c":3}"#, "at 7"];
    check(list(&body, End::Proper), &expected).await;
    let whole: &str = body.concat().leak();
    check(list(&[whole], End::Proper), &expected).await;
    let server = Server::always(list(&[whole], End::Proper)).await;
    let parts = parts(soon(server.client().get().list()).await.unwrap()).await;
    assert!(parts[1].starts_with(r#"{"metadata":{"name":"b""#), "the default limit is much larger: {parts:?}");
}

#[tokio::test]
async fn rejected_list_fails_before_any_part() {
    let server = Server::always(Reply::json(410, "")).await;
    let error = soon(server.client().get().list()).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Expired));
    let server = Server::always(Reply::ok().header("content-type", "text/html")).await;
    assert!(soon(server.client().get().list()).await.unwrap_err().to_string().contains("text/html"));
}

#[tokio::test(start_paused = true)]
async fn list_deadlines_apply_to_its_body() {
    let _clock = steady_clock();
    let server = Server::always(list(&[r#"{"items":[{"a":1}"#], End::Stall)).await;
    let request = server.client().get().timeout(Duration::from_secs(5));
    assert_eq!(
        parts(request.list().await.unwrap()).await,
        [r#"{"a":1}"#, "late: the whole exchange took longer than 5s"]
    );
    let request = server.client().get().idle_timeout(Duration::from_secs(5));
    assert_eq!(
        parts(request.list().await.unwrap()).await,
        [r#"{"a":1}"#, "late: the next part of the response took longer than 5s"]
    );
}

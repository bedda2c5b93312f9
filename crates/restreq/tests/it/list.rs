//! Lists that are read item by item, as they come.

use std::time::Duration;

use bytes::Bytes;
use pintle_meta::{ListMeta, ListPart, Reason};
use pintle_restreq::{Error, ListStream, RestClient, RestClientConfig};

use crate::support::{End, Reply, Server, soon, steady_clock};

fn list(chunks: &[&'static str], end: End) -> Reply {
    Reply::watch(chunks, end)
}

/// What comes, in words.
async fn told(mut stream: ListStream) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(part) = stream.part().await {
        told.push(match part {
            Ok(ListPart::Item(item)) => String::from_utf8(item.to_vec()).unwrap(),
            Ok(ListPart::Metadata(ListMeta { resource_version, .. })) => format!("at {resource_version}"),
            Err(Error::Decode { message, .. }) => format!("decode: {message}"),
            Err(Error::Status { status, .. }) => format!("status: {}", status.reason.unwrap()),
            Err(Error::TooLarge { limit, .. }) => format!("larger than {limit}"),
            Err(Error::Timeout { phase, .. }) => format!("late: {phase}"),
            Err(Error::Transport { .. }) => "cut".into(),
            Err(other) => panic!("{other}"),
        });
    }
    told
}

async fn check(reply: Reply, expected: &[&str]) {
    let server = Server::always(reply).await;
    let told = told(soon(server.client().get().max_body(50).list()).await.unwrap()).await;
    assert_eq!(told.len(), expected.len(), "{told:?}");
    assert!(told.iter().zip(expected).all(|(told, expected)| told.starts_with(expected)), "{told:?} for {expected:?}");
}

#[tokio::test]
async fn items_come_one_by_one_and_the_metadata_wherever_it_stands() {
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
async fn a_list_that_is_not_whole_ends_in_an_error() {
    check(list(&[r#"{"items":[{"a":1},{"b"#], End::Cut), &[r#"{"a":1}"#, "cut"]).await;
    check(list(&[r#"{"items":[{"a":1},{"b"#], End::Proper), &[r#"{"a":1}"#, "decode: EOF"]).await;
    check(list(&[r#"{"kind":"Pod","metadata":{}}"#], End::Proper), &["decode: expected a list, got kind \"Pod\""])
        .await;
    check(list(&[], End::Proper), &["decode: the answer has no body"]).await;
    let failure = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}"#;
    check(list(&[failure], End::Proper), &["status: Expired"]).await;
    let late = format!(
        r#"{{"apiVersion":"v1","code":410,"message":"{}","reason":"Expired","status":"Failure","kind":"Status"}}"#,
        "x".repeat(600)
    );
    check(list(&[late.leak()], End::Proper), &["status: Expired"]).await;
    let large = r#"{"items":[{"a":"01234567890123456789012345678901234567890123456789"}]}"#;
    check(list(&[large], End::Proper), &["larger than 50"]).await;
}

#[tokio::test]
async fn a_refused_list_is_told_before_any_part() {
    let server = Server::always(Reply::json(410, "")).await;
    let error = soon(server.client().get().list()).await.unwrap_err();
    assert_eq!(error.reason(), Some(&Reason::Expired));
    let server = Server::always(Reply::ok().header("content-type", "text/html")).await;
    assert!(soon(server.client().get().list()).await.unwrap_err().to_string().contains("text/html"));
}

#[tokio::test(start_paused = true)]
async fn the_deadlines_of_a_list_bind_its_body() {
    let _clock = steady_clock();
    let server = Server::always(list(&[r#"{"items":[{"a":1}"#], End::Stall)).await;
    let request = server.client().get().timeout(Duration::from_secs(5));
    assert_eq!(told(request.list().await.unwrap()).await, [r#"{"a":1}"#, "late: the whole exchange"]);
    let request = server.client().get().idle_timeout(Duration::from_secs(5));
    assert_eq!(told(request.list().await.unwrap()).await, [r#"{"a":1}"#, "late: the next part of the answer"]);
}

/// A list of many MiB, through a client that takes no whole body of more than one. `PINTLE_LIST_MIB` sets another size.
#[tokio::test]
async fn a_list_of_any_size_streams_through_in_bounded_memory() {
    const CHUNK: usize = 64 << 10;
    let mebibytes = std::env::var("PINTLE_LIST_MIB").map_or(48, |size| size.parse().unwrap());
    let item = format!("{{\"text\":\"{}\"}}", "x".repeat(CHUNK / 8 - 12));
    let items: Bytes = [item.as_str(); 8].join(",").into();
    let mut chunks = vec![Bytes::from_static(b"{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[")];
    for _ in 0..(mebibytes << 20) / CHUNK {
        chunks.extend([items.clone(), ",".into()]);
    }
    *chunks.last_mut().unwrap() = "]}".into();
    let expected = (chunks.len() - 1) / 2 * 8;
    let headers = vec![("content-type", "application/json".into())];
    let server = Server::always(Reply::Answer { status: 200, headers, chunks, end: End::Proper }).await;
    let client = RestClient::new(RestClientConfig { max_body: 1 << 20, ..server.config().into() }).unwrap();

    let before = peak_memory();
    let mut stream = soon(client.get().list()).await.unwrap();
    let mut seen = 0;
    while let Some(part) = stream.part().await {
        match part.unwrap() {
            ListPart::Item(found) => {
                assert_eq!(found.len(), item.len());
                seen += 1;
            }
            ListPart::Metadata(metadata) => assert_eq!(metadata.resource_version, "7"),
        }
    }
    assert_eq!(seen, expected);
    let grown = peak_memory() - before;
    assert!(grown < 16 << 10, "{grown} KiB for {mebibytes} MiB");
}

/// The most memory that this process has had, in KiB; 0 where the system does not tell.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

//! Tests reading container logs.

use std::time::Duration;

use pintle_meta::{ApiResource, DynamicObject, ErrorKind, Scope, Time};
use pintle_restreq::{Api, LogOptions, LogSource};

use crate::support::{End, Reply, Server, soon};

fn pods(server: &Server) -> Api<DynamicObject> {
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    Api::dynamic(server.client(), pods, Some("team-a")).unwrap()
}

fn log(chunks: &[&'static [u8]], end: End) -> Reply {
    let chunks = chunks.iter().map(|chunk| bytes::Bytes::from_static(chunk)).collect();
    Reply::Answer { status: 200, headers: vec![("content-type", "text/plain".into())], chunks, end }
}

#[tokio::test]
async fn log_options_become_parameters() {
    let server = Server::always(log(&[b"a\nb\xff\n"], End::Proper)).await;
    let options = LogOptions {
        container: "main".into(),
        previous: true,
        since: Some(Duration::from_millis(1500)),
        timestamps: true,
        tail_lines: Some(0),
        limit_bytes: Some(9),
        stream: Some(LogSource::Stderr),
        ..LogOptions::default()
    };
    assert_eq!(soon(pods(&server).logs("web-1", &options)).await.unwrap(), "a\nb\u{fffd}\n");
    let since = LogOptions { since_time: Some(Time("2026-11-20T08:30:00Z".parse().unwrap())), ..LogOptions::default() };
    soon(pods(&server).logs("web-1", &since)).await.unwrap();
    soon(pods(&server).logs("web-1", &LogOptions::default())).await.unwrap();
    let path = "/api/v1/namespaces/team-a/pods/web-1/log";
    let seen: Vec<String> = server.seen().iter().map(|seen| seen.uri.clone()).collect();
    let all = "container=main&limitBytes=9&previous=true&sinceSeconds=2&stream=Stderr&tailLines=0&timestamps=true";
    assert_eq!(seen[0], format!("{path}?{all}"));
    assert_eq!(seen[1].replace("%3A", ":"), format!("{path}?sinceTime=2026-11-20T08:30:00Z"));
    assert_eq!(seen[2], path);
    assert_eq!(server.seen()[2].header("accept"), Some("*/*"));
}

#[tokio::test]
async fn log_lines_arrive_until_the_connection_is_lost() {
    let server = Server::start([log(&[b"one\ntw", b"o\n\nrest"], End::Proper), log(&[b"one\npart"], End::Cut)]).await;
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let mut lines = soon(pods(&server).log_lines("web-1", &follow)).await.unwrap();
    for expected in ["one", "two", "", "rest"] {
        assert_eq!(soon(lines.next()).await.unwrap().unwrap(), expected);
    }
    assert!(soon(lines.next()).await.is_none());
    let mut lines = soon(pods(&server).log_lines("web-1", &follow)).await.unwrap();
    assert_eq!(soon(lines.next()).await.unwrap().unwrap(), "one");
    let error = soon(lines.next()).await.unwrap().unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Transport(_)), "{error}");
    assert!(soon(lines.next()).await.is_none(), "a part of a line is not a line");
}

#[tokio::test]
async fn contradicting_log_options_are_rejected() {
    let server = Server::start([]).await;
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    let error = pods(&server).logs("web-1", &follow).await.unwrap_err();
    assert!(error.to_string().contains("use log_lines"), "{error}");
    let since = LogOptions { since: Some(Duration::ZERO), since_time: Some(Time::now()), ..LogOptions::default() };
    let error = pods(&server).log_lines("web-1", &since).await.unwrap_err();
    assert!(error.to_string().contains("exclude each other"), "{error}");
    assert!(server.seen().is_empty());
}

//! The load server, asked over loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::feed::Feed;

fn serve(pods: usize) -> Feed {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
    let server = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || super::serve(pods, &listener));
    Feed { server }
}

/// Asks for the last thing on a connection, and does not wait.
fn ask(feed: &Feed, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&feed.server["http://".len()..]).expect("it listens");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it reads");
    stream
}

/// What an answer has said by its end.
fn body(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (_, mut rest) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a chunk has a length");
        body.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
    body
}

fn list(feed: &Feed, query: &str) -> Value {
    serde_json::from_str(&body(ask(feed, &format!("/api/v1/pods{query}")))).expect("a list is JSON")
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().expect("a list has items")
}

#[test]
fn pages_make_up_the_list() {
    let feed = serve(25);
    let all = list(&feed, "?limit=10&resourceVersion=0");
    assert_eq!(items(&all).len(), 25);
    let (first, last) = (list(&feed, "?limit=20"), list(&feed, "?limit=20&continue=20"));
    assert_eq!((&first["metadata"]["continue"], &first["metadata"]["remainingItemCount"]), (&"20".into(), &5.into()));
    assert!(last["metadata"]["continue"].is_null());
    assert_eq!([items(&first), items(&last)].concat(), items(&all));
}

#[test]
fn a_watch_tells_what_is_ordered_until_it_expires() {
    let feed = serve(25);
    let watch = ask(&feed, "/api/v1/pods?watch=true&sendInitialEvents=true");
    feed.wait_for_watch();
    feed.events(5, 30);
    // An order that a watch has not seen yet would be lost by the next one, which no bench does.
    let mut told = String::new();
    let mut watch = std::io::BufReader::new(watch);
    while !told.contains("1000000060") {
        std::io::BufRead::read_line(&mut watch, &mut told).expect("it answers");
    }
    feed.expire(5);
    watch.read_to_string(&mut told).expect("it ends");
    let events: Vec<Value> = told
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let kinds = events.iter().fold(Vec::<(&str, usize)>::new(), |mut kinds, event| {
        let kind = event["type"].as_str().expect("an event has a type");
        match kinds.last_mut() {
            Some((last, n)) if *last == kind => *n += 1,
            _ => kinds.push((kind, 1)),
        }
        kinds
    });
    assert_eq!(kinds, [("ADDED", 25), ("BOOKMARK", 1), ("MODIFIED", 30), ("ERROR", 1)]);
    assert_eq!(events.last().expect("one")["object"]["code"], 410);
    let versions = list(&feed, "");
    let changed =
        items(&versions).iter().filter(|pod| pod["metadata"]["resourceVersion"].as_str() > Some("1000000025"));
    assert_eq!((changed.count(), &versions["metadata"]["resourceVersion"]), (5, &"1000000030".into()));
}

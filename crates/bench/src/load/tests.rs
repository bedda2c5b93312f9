//! Tests of the load server over loopback connections.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::Value;

use crate::feed::Feed;

fn serve(pods: usize) -> Feed {
    let listener = TcpListener::bind("127.0.0.1:0").expect("cannot bind to loopback");
    let server = format!("http://{}", listener.local_addr().expect("the listener is bound"));
    std::thread::spawn(move || super::serve(pods, &listener));
    Feed { server }
}

fn request(feed: &Feed, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&feed.server["http://".len()..]).expect("the server listens");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("the server reads");
    stream
}

fn body(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    let (_, mut rest) = answer.split_once("\r\n\r\n").expect("a response has a head");
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a chunk has a length");
        body.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
    body
}

fn list(feed: &Feed, query: &str) -> Value {
    serde_json::from_str(&body(request(feed, &format!("/api/v1/pods{query}")))).expect("a list is JSON")
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().expect("a list has items")
}

#[test]
fn pages_form_the_complete_list() {
    let feed = serve(25);
    let all = list(&feed, "?limit=10&resourceVersion=0");
    assert_eq!(items(&all).len(), 25);
    let (first, last) = (list(&feed, "?limit=20"), list(&feed, "?limit=20&continue=20"));
    assert_eq!((&first["metadata"]["continue"], &first["metadata"]["remainingItemCount"]), (&"20".into(), &5.into()));
    assert!(last["metadata"]["continue"].is_null());
    assert_eq!([items(&first), items(&last)].concat(), items(&all));
}

#[test]
fn watch_sends_ordered_events_until_it_expires() {
    let feed = serve(25);
    let watch = request(&feed, "/api/v1/pods?watch=true&sendInitialEvents=true");
    feed.wait_for_watch();
    feed.events(5, 30);
    // Wait until the watch has read the first order, which the second control request would otherwise
    // replace.
    let mut text = String::new();
    let mut watch = std::io::BufReader::new(watch);
    while !text.contains("1000000060") {
        std::io::BufRead::read_line(&mut watch, &mut text).expect("the server answers");
    }
    feed.expire(5);
    watch.read_to_string(&mut text).expect("the watch ends");
    let events: Vec<Value> = text
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

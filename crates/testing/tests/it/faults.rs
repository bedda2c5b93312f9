//! Tests which requests a fault affects, and the outcomes of these requests.

use std::task::Poll;
use std::time::Duration;

use pintle_meta::{
    ApiError, DeleteOptions, ListOptions, ListWatch, ObjectApi, Patch, Reason, WatchOptions, WriteOptions,
};
use pintle_testing::{Break, Call, Client, Outcome, Verb};
use serde_json::json;

use crate::support::{Website, available, from, key, log, now, page, poll, site, sites, themed};

fn list() -> ListOptions {
    ListOptions::default()
}

fn busy() -> Outcome {
    Outcome::refused(429, Reason::TooManyRequests)
}

fn fails(client: &Client<Website>) -> [bool; 3] {
    [now(client.get(&key("a"))).is_err(), now(client.list(&list())).is_err(), now(client.get(&key("a"))).is_err()]
}

#[test]
fn queued_faults_apply_in_order() {
    let sites = sites(&["a"]);
    let client = sites.client("one");
    client.faults().next([Outcome::Pass, busy(), busy()]);
    assert_eq!(fails(&client), [false, true, true]);
    assert_eq!(fails(&client), [false; 3]);
}

#[test]
fn fault_for_one_verb_skips_other_verbs() {
    let sites = sites(&["a"]);
    let client = sites.client("one");
    client.faults().next_of(Verb::List, [busy()]);
    client.faults().next([Outcome::Pass, Outcome::Pass, busy()]);
    assert_eq!(fails(&client), [false, true, false]);
    assert_eq!(fails(&client), [true, false, false]);
}

#[test]
fn rule_applies_after_queued_faults_until_healed() {
    let sites = sites(&["a"]);
    let client = sites.client("one");
    client.faults().when(|request| matches!(request.call, Call::Get { .. }).then(busy));
    client.faults().next([Outcome::Pass]);
    assert_eq!(fails(&client), [false, false, true]);
    assert_eq!(fails(&client), [true, false, true]);
    client.faults().heal();
    assert_eq!(fails(&client), [false; 3]);
}

#[test]
fn rule_can_read_the_collection() {
    let sites = sites(&["a"]);
    let seen = sites.clone();
    sites.faults().when(move |_| (seen.requests().len() <= 2).then(busy));
    assert_eq!(fails(&sites.client("one")), [true, true, false], "the rule sees its own request in the log");
}

#[test]
fn client_faults_apply_before_collection_faults() {
    let sites = sites(&["a"]);
    let (one, other) = (sites.client("one"), sites.client("other"));
    one.faults().next([busy()]);
    assert_eq!(fails(&other), [false; 3]);
    assert_eq!(fails(&one), [true, false, false]);
    sites.faults().next([busy(), busy()]);
    one.faults().next([Outcome::Pass]);
    assert_eq!(fails(&one), [false, true, true]);
    sites.faults().next([busy()]);
    assert!(
        now(sites.list(&list())).is_err() && now(sites.list(&list())).is_ok(),
        "the collection's script applies to its own requests"
    );
}

#[test]
fn failed_and_lost_requests_are_not_executed() {
    let sites = sites(&[]);
    sites.faults().next([Outcome::Fails(ApiError::timeout("late")), Outcome::Lost]);
    assert!(now(sites.create(&site("a"), &WriteOptions::default())).unwrap_err().is_unanswered());
    assert!(poll(sites.create(&site("a"), &WriteOptions::default())).is_pending());
    assert_eq!(sites.revision(), 0);
    assert_eq!(log(&sites), ["CREATE ns/a", "CREATE ns/a"], "the lost request was logged");
}

#[tokio::test(start_paused = true)]
async fn requests_with_faulty_responses_are_executed() {
    let sites = sites(&[]);
    let post = WriteOptions::default();
    let late = Duration::from_secs(3);
    sites.faults().next([
        Outcome::AnswerLost,
        Outcome::AnswerFails(ApiError::transport("cut")),
        Outcome::AnswerSlow(late),
    ]);
    assert!(poll(sites.create(&site("a"), &post)).is_pending());
    assert!(sites.create(&site("b"), &post).await.unwrap_err().may_have_acted());
    let start = tokio::time::Instant::now();
    sites.create(&site("c"), &post).await.unwrap();
    assert_eq!((start.elapsed(), sites.objects().len()), (late, 3));
    sites.faults().next([Outcome::AnswerLost]);
    assert!(poll(sites.watch(&from(1))).is_pending());
    assert_eq!(sites.open_watches(), 0, "a dropped request leaves no watch");
}

#[test]
fn page_breaks_after_the_given_items() {
    let sites = sites(&["a", "b", "c"]);
    for (how, last) in [
        (Break::End, Poll::Ready(None)),
        (Break::cut(), Poll::Ready(Some("the connection failed: the connection was cut"))),
        (Break::Silent, Poll::Pending),
    ] {
        sites.faults().next([Outcome::Breaks { after: 2, how }]);
        let mut page = now(sites.list(&list())).unwrap();
        assert!((0..2).all(|_| now(page.next()).unwrap().is_ok()));
        let broken = poll(page.next()).map(|part| part.map(|part| part.unwrap_err().to_string()));
        assert_eq!(broken, last.map(|last| last.map(Into::into)));
    }
}

#[test]
fn watch_breaks_after_the_given_events() {
    let sites = sites(&["a", "b", "c"]);
    for (after, how, expected) in [
        (0, Break::End, vec!["end"]),
        (0, Break::expired(), vec!["ERROR 410", "end"]),
        (0, Break::Silent, vec![]),
        (1, Break::End, vec!["ADDED b@2", "end"]),
        (1, Break::Silent, vec!["ADDED b@2"]),
        (3, Break::End, vec!["ADDED b@2", "ADDED c@3"]),
    ] {
        sites.faults().next_of(Verb::Watch, [Outcome::Breaks { after, how }]);
        assert_eq!(available(&mut now(sites.watch(&from(1))).unwrap()), expected);
    }
    sites.faults().next([Outcome::Breaks { after: 2, how: Break::End }]);
    assert_eq!(available(&mut now(sites.watch(&from(0))).unwrap()), ["ADDED a@1", "ADDED b@2", "end"]);
}

#[test]
fn streaming_list_can_lack_its_bookmark() {
    let sites = sites(&["a"]);
    sites.faults().next([Outcome::NoBookmark]);
    let streaming = WatchOptions { send_initial_events: true, ..from(0) };
    let mut events = now(sites.watch(&streaming)).unwrap();
    assert_eq!(available(&mut events), ["ADDED a@1"]);
    sites.put(site("b"));
    assert_eq!(available(&mut events), ["ADDED b@2"]);
}

#[tokio::test(start_paused = true)]
async fn cut_off_client_gets_nothing_until_healed() {
    let sites = sites(&["a"]);
    let (one, other) = (sites.client("one"), sites.client("other"));
    let mut events = one.watch(&from(1)).await.unwrap();
    one.faults().cut_off();
    sites.put(site("b"));
    let waiting = tokio::spawn(async move { events.next().await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!waiting.is_finished() && poll(one.get(&key("a"))).is_pending());
    assert!(other.get(&key("a")).await.is_ok());
    one.faults().heal();
    assert!(waiting.await.unwrap().unwrap().is_ok(), "the watch continues where it was");
    assert!(one.get(&key("a")).await.is_ok());

    sites.faults().cut_off();
    assert!(poll(one.get(&key("a"))).is_pending() && poll(other.get(&key("a"))).is_pending());
}

#[test]
fn log_records_client_and_call() {
    let sites = sites(&["a"]);
    let client = sites.client("one");
    let post = WriteOptions { field_manager: "m".into(), ..WriteOptions::default() };
    let first = ListOptions { limit: 500, resource_version: "0".into(), ..list() };
    page(&client, &first);
    let next = ListOptions { continue_token: "1:ns/a".into(), label_selector: "app=web".parse().unwrap(), ..list() };
    page(&client, &next);
    drop(now(client.watch(&from(7))).unwrap());
    let streaming = WatchOptions {
        send_initial_events: true,
        field_selector: "metadata.name=a".parse().unwrap(),
        ..WatchOptions::default()
    };
    drop(now(client.watch(&streaming)).unwrap());
    now(client.create(&site("b"), &post)).unwrap();
    now(client.update(&themed("b", "dark"), &post)).unwrap();
    now(client.update_status(&site("b"), &post)).unwrap();
    let apply = json!({"apiVersion": "example.com/v1", "kind": "Website"});
    for patch in [Patch::Merge(json!({})), Patch::Apply(apply)] {
        now(client.patch(&key("b"), &patch, &post)).unwrap();
    }
    now(client.delete(&key("b"), &DeleteOptions::default())).unwrap();
    now(sites.get(&key("a"))).unwrap();

    let requests = sites.requests();
    let Call::Update { object, options, .. } = &requests[5].call else { panic!("{:?}", requests[5]) };
    assert_eq!((&object["spec"]["theme"], options.field_manager.as_str()), (&json!("dark"), "m"));
    assert_eq!(
        log(&sites),
        [
            "one LIST rv=0 limit=500",
            "one LIST rv= limit=0 next labels=app=web",
            "one WATCH rv=7",
            "one WATCH rv= initial fields=metadata.name=a",
            "one CREATE ns/b",
            "one UPDATE ns/b",
            "one UPDATE ns/b status",
            "one PATCH ns/b merge",
            "one PATCH ns/b apply",
            "one DELETE ns/b",
            "GET ns/a",
        ]
    );
    assert!(sites.requests().is_empty(), "take_requests empties the log");
}

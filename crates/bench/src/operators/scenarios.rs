//! The scenarios of the operator comparison.

use std::pin::Pin;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use pintle::apiserver::RequestVerb;
use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::prelude::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::world::{Process, World};

/// Runs a scenario and returns its result as a sentence.
type Scenario = for<'a> fn(&'a World) -> Pin<Box<dyn Future<Output = String> + 'a>>;

pub(super) const ALL: &[(&str, Scenario)] = &[
    ("steady state", |world| Box::pin(steady(world))),
    ("killed between two writes", |world| Box::pin(killed_between_writes(world))),
    ("killed and restarted", |world| Box::pin(killed(world))),
    ("terminated and restarted", |world| Box::pin(terminated(world))),
    ("throttled", |world| Box::pin(failing(world, Answer { retry_after: Some(1), ..Answer::new(429) }))),
    ("internal errors", |world| Box::pin(failing(world, Answer::new(500)))),
    ("cut off for 5 s", |world| Box::pin(cut_off(world, Duration::from_secs(5)))),
    ("cut off for 20 s", |world| Box::pin(cut_off(world, Duration::from_secs(20)))),
    ("conflict", |world| Box::pin(conflict(world))),
    ("foreign edit", |world| Box::pin(foreign_edit(world))),
    ("panic", |world| Box::pin(panic(world))),
];

async fn started(world: &World) -> Process {
    let process = world.start();
    world.create("first", "first.example.com").await;
    world.published("first", Instant::now()).await;
    sleep(Duration::from_secs(1)).await;
    process
}

async fn steady(world: &World) -> String {
    let process = started(world).await;
    let from = Instant::now();
    world.create("second", "second.example.com").await;
    let took = world.published("second", from).await;
    sleep(Duration::from_secs(1)).await;
    let requests = world.requests(from).len();
    process.terminate().await;
    let from = Instant::now();
    let _process = world.start();
    sleep(Duration::from_secs(4)).await;
    let writes = |verb| matches!(verb, Some(RequestVerb::Create | RequestVerb::Update | RequestVerb::Patch));
    let again = world.requests(from);
    let again = again.iter().filter(|record| record.group != "apiextensions.k8s.io" && writes(record.verb)).count();
    format!(
        "a new website is published after {took} with {requests} requests; {again} writes after a restart with 2 websites"
    )
}

async fn killed_between_writes(world: &World) -> String {
    let process = started(world).await;
    let rule = Rule { subresource: Some("status".into()), times: None, ..Rule::new(Fault::Answer(Answer::new(500))) };
    let blocked = world.faults().add(rule);
    world.create("second", "second.example.com").await;
    while world.maps().get("second").await.is_err() {
        sleep(Duration::from_millis(2)).await;
    }
    process.kill();
    world.faults().remove(blocked);
    let from = Instant::now();
    let _process = world.start();
    format!("published {} after the restart", world.published("second", from).await)
}

async fn killed(world: &World) -> String {
    started(world).await.kill();
    world.create("second", "second.example.com").await;
    let from = Instant::now();
    let _process = world.start();
    format!("published {} after the restart", world.published("second", from).await)
}

async fn terminated(world: &World) -> String {
    let process = started(world).await;
    let from = Instant::now();
    let ended = process.terminate().await;
    let took = from.elapsed().as_secs_f64();
    world.create("second", "second.example.com").await;
    let from = Instant::now();
    let _process = world.start();
    let published = world.published("second", from).await;
    format!("{ended:?} after {took:.2} s; published {published} after the restart")
}

/// The server rejects all writes of the operator with the error `answer` for 5 s.
async fn failing(world: &World, answer: Answer) -> String {
    use RequestVerb::{Create, Patch, Update};
    let mut process = started(world).await;
    let writes = [
        (Create, "configmaps"),
        (Update, "configmaps"),
        (Patch, "configmaps"),
        (Update, "websites"),
        (Patch, "websites"),
    ];
    let rules = writes.map(|(verb, resource)| {
        let rule = Rule::new(Fault::Answer(answer.clone()));
        world.faults().add(Rule { verb: Some(verb), resource: Some(resource.into()), times: None, ..rule })
    });
    world.create("second", "second.example.com").await;
    sleep(Duration::from_secs(5)).await;
    let hits = world.faults().hits();
    rules.into_iter().for_each(|rule| world.faults().remove(rule));
    let from = Instant::now();
    let published = world.published("second", from).await;
    format!("{hits} requests in 5 s; published {published} after the end; the process {}", process.state())
}

async fn cut_off(world: &World, span: Duration) -> String {
    let mut process = started(world).await;
    world.proxy.cut(true);
    world.create("second", "second.example.com").await;
    sleep(span).await;
    let state = process.state();
    world.proxy.cut(false);
    let from = Instant::now();
    // Restart a process that has ended, like the kubelet in a real cluster.
    let _restarted = process.ended().map(|_| world.start());
    let published = world.published("second", from).await;
    format!("the process {state}; published {published} after the end of the fault")
}

async fn conflict(world: &World) -> String {
    let _process = started(world).await;
    let rule = Rule::new(Fault::Answer(Answer::new(409)));
    world.faults().add(Rule { subresource: Some("status".into()), times: Some(3), ..rule });
    let from = Instant::now();
    world.create("second", "second.example.com").await;
    let published = world.published("second", from).await;
    format!("published after {published}, with {} conflicts", world.faults().hits())
}

async fn foreign_edit(world: &World) -> String {
    let _process = started(world).await;
    let edit = Patch::Merge(json!({"data": {"url": "edited", "other": "kept"}}));
    world.maps().patch("first", &edit, &WriteOptions::default()).await.expect("the ConfigMap exists");
    let from = Instant::now();
    let is_undone = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["url"] == "https://first.example.com");
    loop {
        let map = world.maps().get("first").await.expect("the ConfigMap exists");
        if is_undone(&map) {
            let other = map.data.is_some_and(|data| data.contains_key("other"));
            return format!("undone after {:.2} s; the other entry is kept: {other}", from.elapsed().as_secs_f64());
        }
        if from.elapsed() > Duration::from_secs(20) {
            return "not undone within 20 s".to_owned();
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// The reconciler panics whenever it reconciles a particular website.
async fn panic(world: &World) -> String {
    let mut process = started(world).await;
    world.create("bad", "panic.example.com").await;
    sleep(Duration::from_secs(2)).await;
    let state = process.state();
    let from = Instant::now();
    world.create("good", "good.example.com").await;
    let _restarted = process.ended().map(|_| world.start());
    let published = world.published("good", from).await;
    sleep(Duration::from_secs(2)).await;
    format!("the process {state}; another website is published after {published}; then the process {}", process.state())
}

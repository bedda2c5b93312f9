//! Tests of a reflector, a `DeltaFIFO` and a cache that are combined manually, as in early versions of client-go.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pintle_delta_fifo::{Delta, DeltaFifo, DeltaFifoConfig, Popped};
use pintle_informer::reflector::{Command, Input, Output, Reflector};
use pintle_informer::{Cache, ReflectorConfig};
use pintle_meta::{ApiError, List, ListOptions, ListPart, ListWatch, Object, ObjectKey};
use pintle_testing::{Break, Collection, Events};

use crate::support::{Pod, key, pod, pods};

type Fifo = DeltaFifo<ObjectKey, Arc<Pod>>;

async fn drive(
    source: &Collection<Pod>,
    reflector: &mut Reflector<Pod>,
    mut command: Command,
    fifo: &mut Fifo,
) -> Command {
    let mut events: Option<Events> = None;
    loop {
        let input = match &command {
            Command::List(options) => Input::Listed(list(source, options).await),
            Command::Watch(options) => Input::Opened(source.watch(options).await.map(|opened| events = Some(opened))),
            Command::Sleep(_) => Input::Woke,
            Command::Read { .. } => {
                let Some(events) = &mut events else { return command };
                match pin!(events.next()).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(event) => Input::Received(event.map(|event| event?.decode())),
                    Poll::Pending => return command,
                }
            }
        };
        let step = reflector.step(std::time::Instant::now(), input);
        match step.output {
            Some(Output::Replaced { objects, resource_version }) => {
                fifo.replace(objects.into_iter().map(Arc::new).collect(), &resource_version).unwrap();
            }
            Some(Output::Added { object, .. }) => fifo.add(Arc::new(object)).unwrap(),
            Some(Output::Updated { object, .. }) => fifo.update(Arc::new(object)).unwrap(),
            Some(Output::Deleted { object, .. }) => fifo.delete(Arc::new(object)).unwrap(),
            Some(Output::Bookmark { .. }) | None => {}
        }
        command = step.command;
    }
}

async fn list(source: &Collection<Pod>, options: &ListOptions) -> Result<List<Pod>, ApiError> {
    let mut page = source.list(options).await?;
    let mut list = List { types: Default::default(), metadata: Default::default(), items: Vec::new() };
    while let Some(part) = page.next().await {
        match part? {
            ListPart::Item(object) => list.items.push(object.decode().unwrap()),
            ListPart::Metadata(metadata) => list.metadata = metadata,
        }
    }
    Ok(list)
}

/// Applies deltas to the cache. The cache determines whether an object is new.
fn process(cache: &Cache<Pod>, popped: Popped<ObjectKey, Arc<Pod>>) -> Vec<String> {
    let mut received = Vec::new();
    for delta in popped.deltas {
        received.push(match delta {
            Delta::Deleted(deleted) => {
                cache.delete(&popped.key, "");
                format!("delete {} {}", popped.key, if deleted.is_tombstone() { "unseen" } else { "seen" })
            }
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                let verb = if cache.upsert(object).unwrap().is_some() { "update" } else { "add" };
                format!("{verb} {}", popped.key)
            }
        });
    }
    received
}

#[tokio::test(start_paused = true)]
async fn delta_fifo_with_indexer_follows_the_source() {
    let source = pods(&["a", "b", "c"]);
    let cache = Arc::new(Cache::<Pod>::new());
    let config = DeltaFifoConfig {
        known_objects: Some(Box::new(cache.clone())),
        emit_replaced: true,
        ..DeltaFifoConfig::default()
    };
    let mut fifo = DeltaFifo::new(|pod: &Arc<Pod>| Ok(pod.key()), config);
    let mut reflector = Reflector::new(ReflectorConfig::default(), 1);

    let first = reflector.start();
    drive(&source, &mut reflector, first, &mut fifo).await;
    let mut received = Vec::new();
    while let Some(popped) = fifo.pop() {
        received.extend(process(&cache, popped));
    }
    assert_eq!(received, ["add ns/a", "add ns/b", "add ns/c"]);
    assert!(fifo.has_synced());

    // The watch misses the deletion of "a" and the addition of "d". The object "b" changes again while its first
    // change is still queued.
    fifo.update(Arc::new(source.object(&key("b")).unwrap())).unwrap();
    source.break_watches(Break::Silent);
    source.remove(&key("a"));
    source.put(pod("d", ""));
    source.compact();
    source.break_watches(Break::End);
    let again = reflector_after_expiry(&mut reflector);
    drive(&source, &mut reflector, again, &mut fifo).await;
    let mut received = Vec::new();
    while let Some(popped) = fifo.pop() {
        received.extend(process(&cache, popped));
    }
    assert_eq!(received, ["update ns/b", "update ns/b", "update ns/c", "add ns/d", "delete ns/a unseen"]);

    fifo.resync().unwrap();
    assert_eq!(fifo.len(), 3);
    let mut cached: Vec<Pod> = cache.list().iter().map(|pod| (*pod).clone()).collect();
    cached.sort_by(|left, right| left.metadata.name.cmp(&right.metadata.name));
    assert_eq!(cached, source.objects());
}

fn reflector_after_expiry(reflector: &mut Reflector<Pod>) -> Command {
    let expired = crate::support::expired();
    reflector.step(std::time::Instant::now(), Input::Received(Some(Err(expired)))).command
}

//! Tests in which user code panics, such as an `Api` or a filter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_events::{BroadcasterConfig, Event, EventBroadcaster, EventSource, EventType, ObjectReference};
use pintle_meta::{ApiError, DeleteOptions, ObjectApi, ObjectKey, Patch, WriteOptions};
use pintle_testing::Collection;

/// An `Api` whose first `create` panics.
struct Once(Collection<Event>, AtomicBool);

impl ObjectApi<Event> for Once {
    async fn get(&self, key: &ObjectKey) -> Result<Event, ApiError> {
        self.0.get(key).await
    }
    async fn create(&self, object: &Event, options: &WriteOptions) -> Result<Event, ApiError> {
        assert!(self.1.swap(true, Ordering::SeqCst), "wanted");
        self.0.create(object, options).await
    }
    async fn update(&self, object: &Event, options: &WriteOptions) -> Result<Event, ApiError> {
        self.0.update(object, options).await
    }
    async fn update_status(&self, object: &Event, options: &WriteOptions) -> Result<Event, ApiError> {
        self.0.update_status(object, options).await
    }
    async fn patch(&self, key: &ObjectKey, patch: &Patch, options: &WriteOptions) -> Result<Event, ApiError> {
        self.0.patch(key, patch, options).await
    }
    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        self.0.delete(key, options).await
    }
}

fn about() -> ObjectReference {
    ObjectReference { namespace: "ns".into(), name: "web".into(), ..ObjectReference::default() }
}

#[tokio::test(start_paused = true)]
async fn sink_survives_a_panicking_api() {
    let server = Collection::<Event>::default();
    let broadcaster = EventBroadcaster::new(BroadcasterConfig::default());
    broadcaster.start_recording_to_sink(Once(server.clone(), AtomicBool::new(false)));
    let recorder = broadcaster.recorder(EventSource::default());
    for reason in ["A", "B", "C"] {
        recorder.event(about(), EventType::Normal, reason, reason);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let counts = broadcaster.shutdown(Duration::from_secs(5)).await;
    // The sink must retry the write, because the event may not have been written before the panic.
    assert_eq!((counts.created, counts.failed, server.objects().len()), (3, 0, 3), "{counts:?}");
}

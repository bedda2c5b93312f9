//! Takes Events.

use std::sync::{Arc, Mutex};

use pintle_events::Event;
use pintle_meta::{ApiError, DeleteOptions, ObjectApi, ObjectKey, Patch, PostOptions, Reason, Status};

#[derive(Clone, Debug, Default)]
pub(crate) struct Sink(Arc<Mutex<Vec<Event>>>);

impl Sink {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }
}

fn refused() -> ApiError {
    Status::failure(405, Reason::MethodNotAllowed, "").into()
}

impl ObjectApi<Event> for Sink {
    async fn get(&self, _: &ObjectKey) -> Result<Event, ApiError> {
        Err(refused())
    }

    async fn create(&self, event: &Event, _: &PostOptions) -> Result<Event, ApiError> {
        self.0.lock().unwrap().push(event.clone());
        Ok(event.clone())
    }

    async fn update(&self, _: &Event, _: &PostOptions) -> Result<Event, ApiError> {
        Err(refused())
    }

    async fn update_status(&self, _: &Event, _: &PostOptions) -> Result<Event, ApiError> {
        Err(refused())
    }

    async fn patch(&self, _: &ObjectKey, _: &Patch, _: &PostOptions) -> Result<Event, ApiError> {
        Err(refused())
    }

    async fn delete(&self, _: &ObjectKey, _: &DeleteOptions) -> Result<(), ApiError> {
        Err(refused())
    }
}

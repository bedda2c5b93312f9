//! The data that a collection, its clients and its streams share.

use std::task::Waker;

use jiff::Timestamp;
use pintle_meta::__private::Mutex;
use pintle_meta::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clock::SteppedClock;
use crate::faults::FaultScript;
use crate::store::{Store, key_of};

pub(crate) struct Shared {
    pub(crate) store: Mutex<Store>,
    pub(crate) clock: SteppedClock,
    pub(crate) faults: FaultScript,
}

impl Shared {
    /// Calls `act`, which may read or change the store, and then wakes the watches that have new items. `act` must not
    /// run user code, because a lock is held during the call.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Store, Timestamp) -> R) -> R {
        let now = self.clock.wall();
        let (result, wakers) = {
            let mut store = self.store.lock();
            let result = act(&mut store, now);
            (result, store.take_wakers())
        };
        wakers.into_iter().for_each(Waker::wake);
        result
    }
}

pub(crate) fn encode<T: Serialize>(object: &T) -> Result<Value, ApiError> {
    serde_json::to_value(object).map_err(ApiError::invalid_request).and_then(checked)
}

pub(crate) fn decode<T: DeserializeOwned>(object: Value) -> Result<T, ApiError> {
    let key = key_of(&object);
    serde_json::from_value(object).map_err(|error| ApiError::decode(format!("{key}: {error}")))
}

pub(crate) fn checked(object: Value) -> Result<Value, ApiError> {
    if object["metadata"].is_object() {
        Ok(object)
    } else {
        Err(ApiError::invalid_request("an object without metadata"))
    }
}

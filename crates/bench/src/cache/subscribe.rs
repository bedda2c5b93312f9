//! Measures a subscription to a running informer.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Kept, informer};
use super::sync::start_and_settle;
use crate::meter::{Sample, Tally, measure};

/// Measures a call of `subscribe()`. CPU time and memory include the delivery of all existing objects.
pub(super) fn subscribe(setting: &Setting, runtime: &Runtime) -> Sample {
    let informer = informer::<Pod>(setting, Kept::Stripped, false);
    runtime.block_on(start_and_settle(setting, &informer));
    let mut call = f64::NAN;
    let sample = measure(|| {
        let begin = Instant::now();
        let mut events = informer.subscribe();
        call = begin.elapsed().as_secs_f64();
        Tally::operations(std::iter::from_fn(|| events.try_next()).count())
    });
    sample.with("ms, the call", call * 1e3)
}

//! To come late to an informer.

use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Kept, informer};
use super::sync::start_and_settle;
use crate::Sample;
use crate::meter::{Tally, measure};

/// One call of `subscribe()`. CPU and memory are measured until all that was there has been told.
pub(super) fn subscribe(how: &Setting, runtime: &Runtime) -> Sample {
    let informer = informer::<Pod>(how, Kept::Stripped, false);
    runtime.block_on(start_and_settle(how, &informer));
    let mut call = f64::NAN;
    let sample = measure(|| {
        let begin = Instant::now();
        let mut events = informer.subscribe();
        call = begin.elapsed().as_secs_f64();
        Tally::operations(std::iter::from_fn(|| events.try_next()).count())
    });
    sample.with("ms, the call", call * 1e3)
}

//! What a full store takes.

use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Kept, Kind, informer};
use super::sync::start_and_settle;
use crate::Sample;
use crate::meter::{Tally, live, measure, resident};

/// From before the informer is made until it has synced and settled, with nobody who listens.
pub(super) fn held<T: Kind>(how: &Setting, runtime: &Runtime, kept: Kept) -> Sample {
    let (resident_before, live_before) = (resident(), live());
    let informer = informer::<T>(how, kept, false);
    let sample = measure(|| {
        runtime.block_on(start_and_settle(how, &informer));
        Tally::operations(informer.lister().len())
    });
    sample.with("bytes live", live() - live_before).with("bytes resident", resident() - resident_before)
}

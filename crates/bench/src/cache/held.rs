//! What a full store takes, and what it takes to read one that is compressed.

use k8s_openapi::api::core::v1::Pod;
use pintle_informer::Compact;
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

/// Each pod once, at random: nearly none of them was decoded a short while ago.
pub(super) fn read_compact(how: &Setting, runtime: &Runtime) -> Sample {
    let informer = informer::<Compact<Pod>>(how, Kept::Unmanaged, false);
    runtime.block_on(start_and_settle(how, &informer));
    let mut pods = informer.lister().list();
    fastrand::Rng::with_seed(1).shuffle(&mut pods);
    measure(|| {
        pods.iter().for_each(|pod| assert!(pod.get().expect("it is a pod").metadata.name.is_some()));
        Tally::operations(pods.len())
    })
}

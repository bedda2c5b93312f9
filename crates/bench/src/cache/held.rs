//! What a full store takes, and what it takes to read one that is compressed.

use k8s_openapi::api::core::v1::Pod;
use pintle_informer::Compact;
use pintle_meta::{Object as _, ObjectKey};
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Kept, Kind, informer};
use super::sync::start_and_settle;
use crate::Sample;
use crate::meter::{Tally, live, measure, resident};

/// From before the informer is made until it has synced and settled, with nobody who listens. What is resident then is told as it is: no
/// side is made to collect or to give memory back for it.
pub(super) fn held<T: Kind>(how: &Setting, runtime: &Runtime, kept: Kept) -> Sample {
    let (resident_before, live_before) = (resident(), live());
    let mut held = None;
    let sample = measure(|| {
        let informer = held.insert(informer::<T>(how, kept, false));
        runtime.block_on(start_and_settle(how, informer));
        Tally::operations(informer.lister().len())
    });
    let sample = sample.with("bytes resident, nothing reclaimed", resident() - resident_before);
    sample.with("bytes live", live() - live_before)
}

/// Each pod once, looked up by its key and decoded, in a random order: nearly none of them was decoded a short while ago.
pub(super) fn read_compact(how: &Setting, runtime: &Runtime) -> Sample {
    let informer = informer::<Compact<Pod>>(how, Kept::Unmanaged, false);
    runtime.block_on(start_and_settle(how, &informer));
    let pods = informer.lister();
    let mut keys: Vec<ObjectKey> = pods.list().iter().map(|pod| pod.key()).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut keys);
    measure(|| {
        for key in &keys {
            let pod = pods.get(key).expect("nothing is deleted").get().expect("it is a pod");
            assert!(pod.metadata.name.is_some());
        }
        Tally::operations(keys.len())
    })
}

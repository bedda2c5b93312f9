//! Measures the memory use of a synced store, and the cost of reads from a compressed store.

use k8s_openapi::api::core::v1::Pod;
use pintle_informer::Compact;
use pintle_meta::{Object as _, ObjectKey};
use tokio::runtime::Runtime;

use super::Setting;
use super::informer::{Kept, Kind, informer};
use super::sync::start_and_settle;
use crate::meter::{Sample, Tally, live, measure, resident};

/// Measures an informer without handlers, from its creation until it has synced and finished its background work. The
/// resident memory is read before the program collects garbage or returns memory to the system.
pub(super) fn held<T: Kind>(setting: &Setting, runtime: &Runtime, kept: Kept) -> Sample {
    let (resident_before, live_before) = (resident(), live());
    let mut held = None;
    let sample = measure(|| {
        let informer = held.insert(informer::<T>(setting, kept, false));
        runtime.block_on(start_and_settle(setting, informer));
        Tally::operations(informer.lister().len())
    });
    let sample = sample.with("bytes resident, nothing reclaimed", resident() - resident_before);
    sample.with("bytes live", live() - live_before)
}

/// Measures an informer whose objects have all been read once.
pub(super) fn held_read(setting: &Setting, runtime: &Runtime) -> Sample {
    let (resident_before, live_before) = (resident(), live());
    let informer = informer::<Pod>(setting, Kept::Unmanaged, false);
    runtime.block_on(start_and_settle(setting, &informer));
    let sample = measure(|| {
        let pods = informer.lister().list();
        assert!(pods.iter().all(|pod| pod.metadata.name.is_some()));
        Tally::operations(pods.len())
    });
    let sample = sample.with("bytes resident, nothing reclaimed", resident() - resident_before);
    sample.with("bytes live", live() - live_before)
}

/// Reads each pod once by key, in random order. Almost every read decodes its pod, because only a few decoded pods
/// stay in memory.
pub(super) fn read_compact(setting: &Setting, runtime: &Runtime) -> Sample {
    let informer = informer::<Compact<Pod>>(setting, Kept::Unmanaged, false);
    runtime.block_on(start_and_settle(setting, &informer));
    let pods = informer.lister();
    let mut keys: Vec<ObjectKey> = pods.list().iter().map(|pod| pod.key()).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut keys);
    measure(|| {
        for key in &keys {
            let pod = pods.get(key).expect("nothing is deleted").get().expect("a valid pod");
            assert!(pod.metadata.name.is_some());
        }
        Tally::operations(keys.len())
    })
}

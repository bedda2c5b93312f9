//! Workloads of the `cache` benchmark. `go/cache` runs the same workloads with client-go, and `kube` runs them with
//! kube-rs.
//!
//! A load server on the same CPUs sends the pods to the measured program. The comment on each workload describes
//! the measurement.

mod events;
mod held;
mod informer;
mod relist;
mod slim_pod;
mod stall;
mod subscribe;
mod sync;

use std::process::ExitCode;

use k8s_openapi::api::core::v1::Pod;
use pintle_informer::Compact;
use tokio::runtime::Runtime;

use crate::answer::{self, Setting};
use crate::feed::Feed;
use crate::meter::Sample;
use informer::{Handling, Kept};
use slim_pod::SlimPod;

type Work = fn(&Setting, &Runtime) -> Sample;

const WORKS: &[(&str, Work)] = &[
    ("sync", |setting, runtime| sync::sync::<Pod>(setting, runtime, Kept::All, false)),
    ("sync-default", |setting, runtime| sync::sync::<Pod>(setting, runtime, Kept::Unmanaged, false)),
    ("sync-compact", |setting, runtime| sync::sync::<Compact<Pod>>(setting, runtime, Kept::Unmanaged, false)),
    ("sync-streaming", |setting, runtime| sync::sync::<Pod>(setting, runtime, Kept::All, true)),
    ("sync-stripped", |setting, runtime| sync::sync::<Pod>(setting, runtime, Kept::Stripped, false)),
    ("relist", relist::relist),
    ("events", |setting, runtime| events::events::<Pod>(setting, runtime, Kept::All, Handling::Metadata)),
    ("events-stripped", |setting, runtime| events::events::<Pod>(setting, runtime, Kept::Stripped, Handling::Metadata)),
    ("events-default", |setting, runtime| events::events::<Pod>(setting, runtime, Kept::Unmanaged, Handling::Metadata)),
    ("events-read", |setting, runtime| events::events::<Pod>(setting, runtime, Kept::Unmanaged, Handling::Object)),
    ("events-compact", |setting, runtime| {
        events::events::<Compact<Pod>>(setting, runtime, Kept::Unmanaged, Handling::Metadata)
    }),
    ("events-8", |setting, runtime| events::events_to(setting, runtime, 8)),
    ("events-64", |setting, runtime| events::events_to(setting, runtime, 64)),
    ("held", |setting, runtime| held::held::<Pod>(setting, runtime, Kept::All)),
    ("held-default", |setting, runtime| held::held::<Pod>(setting, runtime, Kept::Unmanaged)),
    ("held-read", held::held_read),
    ("held-slim", |setting, runtime| held::held::<SlimPod>(setting, runtime, Kept::All)),
    ("held-compact", |setting, runtime| held::held::<Compact<Pod>>(setting, runtime, Kept::Unmanaged)),
    ("read-compact", held::read_compact),
    ("subscribe", subscribe::subscribe),
    ("stall", |setting, _| stall::stall(setting)),
];

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    answer::main("cache WORK --server URL [--quick]", WORKS, |work, setting| {
        setting.server?;
        let runtime = Runtime::new().expect("cannot create a runtime");
        let _in_runtime = runtime.enter();
        Some(work(setting, &runtime))
    })
}

impl Setting {
    fn feed(&self) -> Feed {
        Feed { server: self.server.unwrap_or_default().to_owned() }
    }

    /// Waits for the end of background work after the first list, such as freeing memory or garbage collection.
    async fn settle(&self) {
        tokio::time::sleep(std::time::Duration::from_secs(if self.quick { 0 } else { 4 })).await;
    }
}

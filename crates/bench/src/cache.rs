//! The works of the area `cache`; `go/cache` does the same ones on client-go, and `kube` on kube-rs.
//!
//! Pods come from the load server, and all sides share the processors with it. A work says in its comment what is in its window.

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

use crate::feed::Feed;
use crate::{Sample, answer};
use informer::Kept;
use slim_pod::SlimPod;

/// In which variant a work is done.
#[derive(Clone, Debug)]
struct Setting {
    feed: Feed,
    /// A small part of the size, to see that all works.
    quick: bool,
}

/// Does a work once, in a runtime with a thread for each processor.
type Work = fn(&Setting, &Runtime) -> Sample;

/// By the names that all sides and `cargo xtask bench` have for them.
const WORKS: &[(&str, Work)] = &[
    ("sync", |how, runtime| sync::sync::<Pod>(how, runtime, Kept::All, false)),
    ("sync-default", |how, runtime| sync::sync::<Pod>(how, runtime, Kept::Unmanaged, false)),
    ("sync-compact", |how, runtime| sync::sync::<Compact<Pod>>(how, runtime, Kept::Unmanaged, false)),
    ("sync-streaming", |how, runtime| sync::sync::<Pod>(how, runtime, Kept::All, true)),
    ("sync-stripped", |how, runtime| sync::sync::<Pod>(how, runtime, Kept::Stripped, false)),
    ("relist", relist::relist),
    ("events", |how, runtime| events::events::<Pod>(how, runtime, Kept::All)),
    ("events-stripped", |how, runtime| events::events::<Pod>(how, runtime, Kept::Stripped)),
    ("events-default", |how, runtime| events::events::<Pod>(how, runtime, Kept::Unmanaged)),
    ("events-compact", |how, runtime| events::events::<Compact<Pod>>(how, runtime, Kept::Unmanaged)),
    ("events-8", |how, runtime| events::events_to(how, runtime, 8)),
    ("events-64", |how, runtime| events::events_to(how, runtime, 64)),
    ("held", |how, runtime| held::held::<Pod>(how, runtime, Kept::All)),
    ("held-default", |how, runtime| held::held::<Pod>(how, runtime, Kept::Unmanaged)),
    ("held-slim", |how, runtime| held::held::<SlimPod>(how, runtime, Kept::All)),
    ("held-compact", |how, runtime| held::held::<Compact<Pod>>(how, runtime, Kept::Unmanaged)),
    ("read-compact", held::read_compact),
    ("subscribe", subscribe::subscribe),
    ("stall", |how, _| stall::stall(how)),
];

/// Does the work that the command line names.
pub fn main() -> ExitCode {
    answer(run(), "cache WORK --server URL [--quick]", WORKS.iter().map(|(work, _)| *work))
}

/// `None`: there is no such work.
fn run() -> Option<Sample> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let (_, work) = WORKS.iter().find(|(work, _)| *work == name)?;
    let (mut server, mut quick) = (None, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--server" => server = args.next(),
            "--quick" => quick = true,
            _ => return None,
        }
    }
    let runtime = Runtime::new().expect("a runtime can be had");
    let _in_runtime = runtime.enter();
    Some(work(&Setting { feed: Feed { server: server? }, quick }, &runtime))
}

impl Setting {
    fn size(&self, full: usize) -> usize {
        if self.quick { full / 50 } else { full }
    }

    /// Lets what the first list left behind come to its end, as background work of the allocator or collector.
    async fn settle(&self) {
        tokio::time::sleep(std::time::Duration::from_secs(if self.quick { 0 } else { 4 })).await;
    }
}

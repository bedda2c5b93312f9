//! Tests of the reflector with servers that are out of date, lose revisions, reject requests, repeat events and
//! disconnect. The reflector's output always equals the source at the output's revision, which never decreases. At the
//! end, the output equals the current state of the source.

use std::collections::BTreeMap;
use std::time::Instant;

use pintle_informer::ReflectorConfig;
use pintle_informer::reflector::{Output, Reflector};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::Pod;
use crate::support::replicas::Replicas;
use crate::support::rig::config;

#[derive(Default)]
struct Fold {
    pods: BTreeMap<String, usize>,
    revision: Option<usize>,
}

impl Fold {
    fn take(&mut self, output: Output<Pod>) -> &'static str {
        let entry = |pod: Pod| (pod.metadata.name, pod.metadata.resource_version.parse().unwrap());
        let (what, version) = match output {
            Output::Replaced { objects, resource_version } => {
                self.pods = objects.into_iter().map(entry).collect();
                ("a list", resource_version)
            }
            Output::Added { object, resource_version } | Output::Updated { object, resource_version } => {
                self.pods.extend([entry(object)]);
                ("a change", resource_version)
            }
            Output::Deleted { object, resource_version } => {
                self.pods.remove(&object.metadata.name);
                ("a deletion", resource_version)
            }
            Output::Bookmark { resource_version } => ("a bookmark", resource_version),
        };
        self.revision = Some(version.parse().unwrap());
        what
    }
}

fn run(tape: Vec<u8>, config: ReflectorConfig, seed: u64) -> Result<(), TestCaseError> {
    let floor: usize = config.not_older_than.parse().unwrap_or(0);
    let mut source = Replicas::new(tape);
    let mut reflector = Reflector::new(config, seed);
    let mut fold = Fold::default();
    let mut now = Instant::now();
    let mut command = reflector.start();
    let mut quiet = 0;
    // After 400 quiet steps, the reflector has recovered from any fault and opened a quiet watch.
    while quiet < 400 {
        if source.tape.has_ended() {
            if quiet == 0 {
                (source.head()..floor).for_each(|_| source.write());
            }
            quiet += 1;
        } else {
            source.change();
        }
        let input = source.answer(&mut now, &command);
        let step = reflector.step(now, input);
        if let Some(output) = step.output {
            let before = fold.revision;
            let what = fold.take(output);
            prop_assert!(fold.revision >= before, "{} goes back from {:?} to {:?}", what, before, fold.revision);
            prop_assert!(fold.revision >= Some(floor), "{} from before {}: {:?}", what, floor, fold.revision);
            let revision = fold.revision.unwrap_or_default();
            prop_assert_eq!(&fold.pods, &source.state_at(revision), "{} at {}", what, revision);
            prop_assert_eq!(reflector.resource_version(), revision.to_string());
        }
        command = step.command;
    }
    prop_assert!(reflector.state().is_synced(), "{:?}", reflector.state());
    prop_assert_eq!(fold.revision, Some(source.head()));
    prop_assert_eq!(&fold.pods, &source.state_at(source.head()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn output_is_a_source_prefix_and_converges(
        tape in vec(any::<u8>(), 0..400),
        streaming_list in any::<bool>(),
        page_size in prop_oneof![Just(None), Just(Some(2))],
        floor in 0..12_usize,
        seed in any::<u64>(),
    ) {
        let not_older_than = if floor == 0 { String::new() } else { floor.to_string() };
        run(tape, ReflectorConfig { streaming_list, page_size, not_older_than, ..config() }, seed)?;
    }
}

//! Randomized tests with concurrent writers and several kinds of informers. The server injects faults into lists and
//! watches.
//!
//! `PINTLE_SEEDS=500` runs 500 seeds. `PINTLE_SEED=17` runs only seed 17. The seed determines the writes and the faults
//! but not their exact timing. Therefore, several runs may be needed to reproduce a rare failure.

use std::collections::BTreeMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use pintle::apiserver::faults::{Answer, Fault, Rule};
use pintle::apiserver::{ApiServer, ApiServerConfig, RequestVerb};
use pintle::informer::{
    InformerConfig, Lister, Namespaces, ReflectorConfig, ResourceEvent, SharedInformer, Snapshot, Subscription,
};
use pintle::meta::{DeleteOptions, ListOptions, Object, ObjectKey, WriteOptions};
use pintle::ratelimit::BackoffConfig;
use pintle::restreq::Api;

use crate::support::{ConfigMap, client, eventually};

/// The default number of seeds. With this number of seeds, each kind of fault occurs.
const SEEDS: u64 = 24;
const _: () = assert!(SEEDS >= FAULTS);

const NAMESPACES: [&str; 3] = ["a", "b", "c"];

type Held = BTreeMap<ObjectKey, String>;

/// An informer with its subscriptions, and the objects that it should contain.
struct Watched {
    what: &'static str,
    informer: SharedInformer<ConfigMap>,
    listeners: Vec<(Subscription<ConfigMap>, Held)>,
    is_wanted: Box<dyn Fn(&ConfigMap) -> bool>,
    seen: String,
}

impl Watched {
    fn new(
        what: &'static str,
        informer: SharedInformer<ConfigMap>,
        is_wanted: impl Fn(&ConfigMap) -> bool + 'static,
    ) -> Self {
        informer.add_index("app", |map: &ConfigMap| map.metadata.labels.get("app").cloned()).unwrap();
        let listeners = vec![
            (informer.subscribe(), Held::new()),
            (informer.subscribe_ordered(4), Held::new()),
            (informer.subscribe_ordered(100_000), Held::new()),
        ];
        informer.start();
        Self { what, informer, listeners, is_wanted: Box::new(is_wanted), seen: String::new() }
    }

    fn look(&mut self, events: usize) {
        let snapshot = self.informer.lister().snapshot();
        consistent(self.what, &snapshot);
        let (before, now) = (number(&self.seen), number(snapshot.resource_version()));
        assert!(now >= before, "{} went back from {before} to {now}", self.what);
        self.seen = snapshot.resource_version().to_owned();
        for (listener, known) in &mut self.listeners {
            for event in std::iter::from_fn(|| listener.try_next()).take(events) {
                fold(self.what, known, &event);
            }
        }
    }

    /// Returns `true` if the cache and all subscribers have reached the server's state.
    fn is_done(&mut self, server: &[ConfigMap]) -> bool {
        self.look(usize::MAX);
        let wanted: Held = server.iter().filter(|map| (self.is_wanted)(map)).map(entry).collect();
        let held: Held = self.informer.lister().list().iter().map(|map| entry(&map)).collect();
        held == wanted && self.listeners.iter().all(|(_, known)| *known == held)
    }
}

fn entry(map: &ConfigMap) -> (ObjectKey, String) {
    (map.key(), format!("{}@{}", map.metadata.uid, map.metadata.resource_version))
}

fn number(resource_version: &str) -> u64 {
    if resource_version.is_empty() { 0 } else { resource_version.parse().unwrap() }
}

/// Applies `event` to `known`. Checks that `event` is consistent with the previous state of the object.
fn fold(what: &str, known: &mut Held, event: &ResourceEvent<ConfigMap>) {
    let (key, state) = entry(event.object());
    match event {
        ResourceEvent::Added { .. } => {
            assert_eq!(known.insert(key, state), None, "{what}: {event:?} for a known object");
        }
        ResourceEvent::Updated { old, .. } => {
            assert_eq!(known.insert(key, state), Some(entry(old).1), "{what}: {event:?}");
        }
        ResourceEvent::Deleted { .. } => {
            assert!(known.remove(&key).is_some(), "{what}: {event:?} for an unknown object");
        }
    }
}

/// Checks that the indexes contain exactly the cached objects.
fn consistent(what: &str, snapshot: &Snapshot<ConfigMap>) {
    let mut by_app: BTreeMap<String, Vec<ObjectKey>> = BTreeMap::new();
    let mut by_namespace: BTreeMap<String, Vec<ObjectKey>> = BTreeMap::new();
    let mut objects: Vec<Arc<ConfigMap>> = snapshot.iter().collect();
    assert_eq!(objects.len(), snapshot.len(), "{what}");
    objects.sort_by_key(|map| map.key());
    for map in objects {
        assert_eq!(snapshot.get(&map.key()).map(|map| entry(&map)), Some(entry(&map)), "{what}");
        if let Some(app) = map.metadata.labels.get("app") {
            by_app.entry(app.clone()).or_default().push(map.key());
        }
        by_namespace.entry(map.metadata.namespace.clone()).or_default().push(map.key());
    }
    for (index, expected) in [("app", by_app), ("namespace", by_namespace)] {
        let values = snapshot.index_values(index).unwrap();
        assert!(expected.keys().all(|value| values.contains(value)), "{what}: {values:?} of {expected:?}");
        for value in values {
            let keys = snapshot.index_keys(index, &value).unwrap();
            assert_eq!(keys, expected.get(&value).cloned().unwrap_or_default(), "{what}: {index}={value}");
        }
    }
}

const FAULTS: u64 = 13;

fn fault(kind: u64, chance: &mut fastrand::Rng) -> Rule {
    let few = chance.u32(..4);
    let answer = |code, retry_after| Fault::Answer(Answer { retry_after, ..Answer::new(code) });
    let (verb, fault) = match kind {
        0 => (RequestVerb::Watch, Fault::CutAfter(few)),
        1 => (RequestVerb::Watch, Fault::CutMidFrame(few)),
        2 => (RequestVerb::Watch, Fault::SilentAfter(few)),
        3 => (RequestVerb::Watch, Fault::Expire),
        4 => (RequestVerb::Watch, answer(410, None)),
        5 => (RequestVerb::List, answer(410, None)),
        6 => (RequestVerb::List, answer(429, Some(0))),
        7 => (RequestVerb::Watch, answer(429, Some(0))),
        8 => (RequestVerb::Watch, answer(503, None)),
        9 => (RequestVerb::List, answer(503, Some(0))),
        10 => (RequestVerb::List, answer(500, None)),
        11 => (RequestVerb::Watch, Fault::Delay(Duration::from_millis(few.into()))),
        _ => (RequestVerb::List, Fault::Delay(Duration::from_millis(few.into()))),
    };
    Rule {
        verb: Some(verb),
        resource: Some("configmaps".into()),
        times: Some(1 + chance.u32(..3)),
        after: chance.u32(..3),
        ..Rule::new(fault)
    }
}

/// Returns a random fault. Faults that break a watch are more likely than others.
fn any_fault(chance: &mut fastrand::Rng) -> Rule {
    let kind = chance.u64(..FAULTS + 3);
    fault(if kind < FAULTS { kind } else { kind - FAULTS }, chance)
}

fn map(namespace: &str, name: &str, app: &str, round: usize) -> ConfigMap {
    let mut map = ConfigMap::new(name);
    map.metadata.namespace = namespace.into();
    map.metadata.labels.insert("app".into(), app.into());
    map.data.insert("round".into(), round.to_string());
    map
}

/// Creates, updates or deletes a random ConfigMap. Chooses from only a few names, so that many writes change existing
/// objects.
async fn write(maps: &Api<ConfigMap>, chance: &mut fastrand::Rng, round: usize) {
    let (namespace, name) = (NAMESPACES[chance.usize(..3)], ["x", "y", "z", "w"][chance.usize(..4)]);
    let key = ObjectKey::new(namespace, name);
    let written = map(namespace, name, ["web", "db"][chance.usize(..2)], round);
    let is_there = maps.get(&key).await.is_ok();
    match (is_there, chance.u8(..4)) {
        (false, _) => drop(maps.create(&written, &WriteOptions::default()).await.unwrap()),
        (true, 0) => drop(maps.delete(&key, &DeleteOptions::default()).await.unwrap()),
        (true, 1) => {
            drop(maps.delete(&key, &DeleteOptions::default()).await.unwrap());
            maps.create(&written, &WriteOptions::default()).await.unwrap();
        }
        (true, _) => drop(maps.update(&written, &WriteOptions::default()).await.unwrap()),
    }
}

fn informers(server: &ApiServer, seed: u64, namespaces: &Namespaces) -> Vec<Watched> {
    let mut config = server.client_config();
    config.qps = None;
    let client = client(config);
    let all: Api<ConfigMap> = Api::all(client.clone());
    let delays = BackoffConfig {
        base: Duration::from_millis(1),
        cap: Duration::from_millis(8),
        ..ReflectorConfig::default().backoff
    };
    let with = |reflector: ReflectorConfig| InformerConfig {
        reflector: ReflectorConfig { backoff: delays, ..reflector },
        seed: Some(seed),
        ..InformerConfig::default()
    };
    // This timeout is longer than the bookmark interval. On a slow machine, a working watch may still be silent for
    // longer, and the informer then restarts the watch.
    let silence = Duration::from_millis(200);
    let plain = || ReflectorConfig {
        watch_idle_timeout: Some(silence),
        streaming_list_idle_timeout: silence,
        ..ReflectorConfig::default()
    };
    let web = ReflectorConfig { label_selector: "app=web".parse().unwrap(), ..plain() };
    let streaming = |reflector| ReflectorConfig { streaming_list: true, ..reflector };
    let pages = ReflectorConfig { page_size: Some(2), streaming_list: false, ..plain() };
    let is_web = |map: &ConfigMap| map.metadata.labels["app"] == "web";
    let followed = namespaces.clone();
    let is_followed = move |map: &ConfigMap| followed.names().unwrap().contains(&map.metadata.namespace);
    let source = move |namespace: Option<&str>| match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let lists = with(ReflectorConfig { streaming_list: false, ..plain() });
    let of_namespaces = SharedInformer::of_namespaces(namespaces, source, with(plain()));
    vec![
        Watched::new("lists", SharedInformer::new(all.clone(), lists), |_| true),
        Watched::new("streams", SharedInformer::new(all.clone(), with(streaming(plain()))), |_| true),
        Watched::new("pages", SharedInformer::new(all.clone(), with(pages)), |_| true),
        Watched::new("web", SharedInformer::new(all.clone(), with(web.clone())), is_web),
        Watched::new("web streams", SharedInformer::new(all, with(streaming(web))), is_web),
        Watched::new("namespaces", of_namespaces, is_followed),
    ]
}

/// Prints the seed if the `Seed` is dropped during a panic.
struct Seed(u64);

impl Drop for Seed {
    #[allow(clippy::print_stderr, reason = "the seed is needed to run it again")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it was seed {0}: PINTLE_SEED={0} runs it alone", self.0);
        }
    }
}

async fn run(seed: u64) {
    let chance = &mut fastrand::Rng::with_seed(seed);
    // With a short history and small watch buffers, watches expire even without faults, and the server disconnects slow
    // watchers.
    let config = ApiServerConfig {
        seed: Some(seed),
        history: chance.usize(4..40),
        watch_buffer: chance.usize(2..64),
        bookmark_interval: Duration::from_millis(chance.u64(2..20)),
        ..ApiServerConfig::default()
    };
    let server = ApiServer::start(config).await.unwrap();
    for namespace in NAMESPACES {
        server.load(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}")).unwrap();
    }
    let mut config = server.client_config();
    config.qps = None;
    let maps: Api<ConfigMap> = Api::all(client(config));
    for round in 0..chance.usize(..10) {
        write(&maps, chance, round).await;
    }
    // Consecutive seeds start with different kinds of faults, so that each kind occurs.
    server.faults().add(Rule { after: 0, ..fault(seed % FAULTS, chance) });
    let namespaces = Namespaces::new(["a"]);
    let mut informers = informers(&server, seed, &namespaces);
    eventually(format!("seed {seed}: its fault strikes"), async || (server.faults().hits() > 0).then_some(())).await;
    for _ in 0..chance.usize(..6) {
        server.faults().add(any_fault(chance));
    }
    for round in 10..60 {
        write(&maps, chance, round).await;
        match chance.u8(..12) {
            0 | 1 => {
                server.faults().add(any_fault(chance));
            }
            2 => namespaces.set(NAMESPACES.into_iter().filter(|_| chance.bool())),
            3 => informers.iter_mut().for_each(|watched| watched.look(2)),
            _ => {}
        }
    }
    server.faults().clear();
    for watched in &mut informers {
        eventually(format!("seed {seed}: {} matches the server", watched.what), async || {
            let there = maps.list(&ListOptions::default()).await.unwrap().items;
            let there: Vec<ConfigMap> =
                there.into_iter().filter(|map| map.metadata.name != "kube-root-ca.crt").collect();
            watched.is_done(&there).then_some(())
        })
        .await;
        let lister: Lister<ConfigMap> = watched.informer.lister();
        assert!(lister.undecodable().is_empty(), "{}", watched.what);
    }
    for watched in informers {
        watched.informer.shutdown().await;
    }
    server.shutdown().await;
}

#[tokio::test]
async fn every_cache_converges_under_random_list_and_watch_faults() {
    let chosen = |name: &str| env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let seeds = match chosen("PINTLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..chosen("PINTLE_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let _seed = Seed(seed);
        run(seed).await;
    }
}

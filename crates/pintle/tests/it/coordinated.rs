//! Tests of coordinated leader election on a server that supports it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pintle::apiserver::{ApiServer, ApiServerConfig};
use pintle::leaderelect::{
    Clocks, LeaderElectionRecord, Lease, LeaseCandidate, LeaseCandidateSpec, OLDEST_EMULATION_VERSION, SystemClocks,
};
use pintle::meta::MicroTime;
use pintle::prelude::*;
use tokio::task::JoinHandle;

use crate::support::{eventually, soon};

const NAME: &str = "website-controller";

async fn coordinated() -> (ApiServer, Cluster) {
    let config = ApiServerConfig { coordinated_leader_election: true, ..ApiServerConfig::default() };
    let server = ApiServer::start(config).await.unwrap();
    let cluster = Cluster::connect(server.client_config()).unwrap();
    (server, cluster)
}

/// A controller for coordinated leader election, like the controller in kube-apiserver. The controller assigns the
/// Lease to the candidate with the oldest version among the candidates that have responded to a ping.
struct Picker {
    leases: Api<Lease>,
    candidates: Api<LeaseCandidate>,
}

/// How long a response to a ping is valid, how long to wait for a response, and how long an assigned Lease is valid.
const ELECTION: Duration = Duration::from_secs(5);

impl Picker {
    fn start(cluster: &Cluster) -> JoinHandle<()> {
        let picker = Self { leases: cluster.namespaced("default"), candidates: cluster.namespaced("default") };
        tokio::spawn(async move {
            loop {
                // Write conflicts are retried in the next iteration.
                let _ = picker.step().await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }

    async fn step(&self) -> Result<(), ApiError> {
        let now = MicroTime(SystemClocks::new().now().wall);
        let lasts = |time: MicroTime, span: Duration| time.0 + span > now.0;
        let candidates = self.candidates.list(&ListOptions::default()).await?.items;
        let half_an_hour = Duration::from_secs(30 * 60);
        let is_fresh =
            |candidate: &LeaseCandidate, span| candidate.spec.renew_time.is_some_and(|time| lasts(time, span));
        let of_lease =
            |candidate: &LeaseCandidate| candidate.spec.lease_name == NAME && is_fresh(candidate, half_an_hour);
        let candidates: Vec<_> = candidates.into_iter().filter(of_lease).collect();
        let lease = match self.leases.get(NAME).await {
            Ok(lease) => Some(lease),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let Some(best) = oldest(&candidates) else { return Ok(()) };
        let holder = lease.as_ref().and_then(|lease| lease.spec.holder_identity.clone()).unwrap_or_default();
        let duration =
            |lease: &Lease| lease.spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let held = lease.as_ref().is_some_and(|lease| {
            let span = Duration::from_secs(duration(lease).unwrap_or_default());
            !holder.is_empty() && lease.spec.renew_time.is_some_and(|time| lasts(time, span))
        });
        if held && holder == best {
            return Ok(());
        }
        let mut waits = false;
        for candidate in candidates.iter().filter(|candidate| !is_fresh(candidate, ELECTION)) {
            let answered = candidate.spec.ping_time.is_none_or(|ping| candidate.spec.renew_time >= Some(ping));
            waits |= candidate.spec.ping_time.is_some_and(|ping| lasts(ping, ELECTION) && !answered);
            if answered {
                let mut pinged = candidate.clone();
                pinged.spec.ping_time = Some(now);
                self.candidates.update(&pinged, &WriteOptions::default()).await?;
                waits = true;
            }
        }
        let answered: Vec<_> = candidates.into_iter().filter(|candidate| is_fresh(candidate, ELECTION)).collect();
        let Some(electee) = oldest(&answered).filter(|_| !waits) else { return Ok(()) };
        let new = || Lease::new(ObjectMeta::new("default", NAME), &LeaderElectionRecord::default());
        let mut given = lease.clone().unwrap_or_else(new);
        given.spec.strategy = Some(OLDEST_EMULATION_VERSION.into());
        match held {
            true => given.spec.preferred_holder = Some(electee),
            // The controller does not change an expired Lease if it would choose the same holder again.
            false if holder == electee => return Ok(()),
            false => {
                given.spec.holder_identity = Some(electee);
                (given.spec.preferred_holder, given.spec.acquire_time) = (None, None);
                (given.spec.renew_time, given.spec.lease_duration_seconds) = (Some(now), Some(5));
            }
        }
        let options = WriteOptions::default();
        match lease {
            Some(before) if before == given => {}
            Some(_) => drop(self.leases.update(&given, &options).await?),
            None => drop(self.leases.create(&given, &options).await?),
        }
        Ok(())
    }
}

/// Returns the name of the first candidate in the order of emulation version, binary version and creation time.
fn oldest(candidates: &[LeaseCandidate]) -> Option<String> {
    let version = |text: &str| text.split('.').map(|part| part.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let order = |candidate: &&LeaseCandidate| {
        let spec = &candidate.spec;
        let created = candidate.metadata.creation_timestamp.map(|time| time.0);
        (version(&spec.emulation_version), version(&spec.binary_version), created, candidate.metadata.name.clone())
    };
    candidates.iter().min_by_key(order).map(|candidate| candidate.metadata.name.clone())
}

struct Contender {
    stop: CancellationToken,
    run: JoinHandle<()>,
}

/// Runs a candidate with the version `version`. While the candidate is the leader, increments `leading` and checks that
/// there is no other leader.
fn contend(cluster: &Cluster, identity: &str, version: &str, leading: &Arc<AtomicU32>) -> Contender {
    let config =
        LeaderElectionConfig { identity: identity.into(), coordinated: true, ..LeaderElectionConfig::default() };
    let candidate = cluster.candidate("default", identity, LeaseCandidateSpec::new(NAME, version)).unwrap();
    let mut elector = cluster.elector(format!("default/{NAME}").as_str(), config).unwrap();
    let (leading, stop) = (leading.clone(), CancellationToken::new());
    let stopped = stop.clone();
    let run = tokio::spawn(async move {
        let work = LeaderCallbacks::new(async |leadership: Leadership| {
            assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
            leadership.cancelled().await;
            leading.fetch_sub(1, Ordering::SeqCst);
        });
        tokio::join!(candidate.run(&stopped), elector.run(&stopped, work));
    });
    Contender { stop, run }
}

#[tokio::test]
async fn lease_moves_to_the_candidate_with_the_oldest_version() {
    let (server, cluster) = coordinated().await;
    let picker = Picker::start(&cluster);
    let leading = Arc::new(AtomicU32::new(0));
    let leases: Api<Lease> = cluster.namespaced("default");
    let leads = async |who: &str| {
        let lease = leases.get(NAME).await.ok()?;
        let renewed = lease.spec.acquire_time.is_some() && leading.load(Ordering::SeqCst) == 1;
        (renewed && lease.spec.holder_identity.as_deref() == Some(who)).then_some(lease)
    };
    let a = contend(&cluster, "a", "1.36.0", &leading);
    let lease = eventually("candidate a leads", async || leads("a").await).await;
    assert_eq!(lease.spec.strategy.as_deref(), Some(OLDEST_EMULATION_VERSION));
    let b = contend(&cluster, "b", "1.37.0", &leading);
    let candidates: Api<LeaseCandidate> = cluster.namespaced("default");
    eventually("candidate b is registered", async || candidates.get("b").await.ok()).await;
    let c = contend(&cluster, "c", "1.35.0", &leading);
    let lease = eventually("candidate c leads after a drained and released", async || leads("c").await).await;
    assert_eq!(lease.spec.preferred_holder, None);
    for contender in [a, b, c] {
        contender.stop.cancel();
        soon(contender.run).await.unwrap();
    }
    assert_eq!(leading.load(Ordering::SeqCst), 0);
    picker.abort();
    server.shutdown().await;
}

#[tokio::test]
async fn lease_candidates_are_served_when_enabled_and_strategy_persists() {
    let plain = ApiServer::start(ApiServerConfig::default()).await.unwrap();
    let (server, cluster) = coordinated().await;
    let options = WriteOptions::default();
    let mut candidate = LeaseCandidate {
        metadata: ObjectMeta::new("default", "Host_1"),
        spec: LeaseCandidateSpec::new(NAME, "1.36.0"),
        ..LeaseCandidate::default()
    };
    candidate.types.api_version = "coordination.k8s.io/v1beta1".into();
    candidate.types.kind = "LeaseCandidate".into();
    let mut lease = Lease::new(ObjectMeta::new("default", "l"), &LeaderElectionRecord::default());
    lease.spec.lease_duration_seconds = Some(5);
    lease.spec.strategy = Some(OLDEST_EMULATION_VERSION.into());
    for (config, is_served) in [(plain.client_config(), false), (cluster.config().clone(), true)] {
        let cluster = Cluster::connect(config).unwrap();
        let candidates: Api<LeaseCandidate> = cluster.namespaced("default");
        let made = candidates.create(&candidate, &options).await;
        match &made {
            Ok(made) => assert_eq!(made.spec, candidate.spec),
            Err(error) => assert!(error.is_not_found(), "{error}"),
        }
        assert_eq!(made.is_ok(), is_served);
        let leases: Api<Lease> = cluster.namespaced("default");
        let made = leases.create(&lease, &options).await.unwrap();
        assert_eq!(made.spec.strategy.is_some(), is_served);
    }
    let candidates: Api<LeaseCandidate> = cluster.namespaced("default");
    let mut made = candidates.get("Host_1").await.unwrap();
    made.spec.lease_name = "another".into();
    let error = candidates.update(&made, &options).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("field is immutable"), "{error}");
    let table = candidates.table(&ListOptions::default()).await.unwrap();
    let columns: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(columns, ["Name", "LeaseName", "BinaryVersion", "EmulationVersion", "Age"]);
    plain.shutdown().await;
    server.shutdown().await;
}

//! Who works: the leader, or everyone where there is no election.

use std::pin::Pin;
use std::sync::Arc;

use pintle_events::{EventRecorder, EventType, ObjectReference};
use pintle_leaderelect::{LeaderCallbacks, LeaderElector, LeaderEvent, Leadership, Lock, LossReason, TermEnd};
use tokio_util::sync::CancellationToken;

use super::team::Team;
use crate::ManagerError;
use crate::panic::{caught, told};

/// What it is called in errors.
pub(super) const NAME: &str = "the leader election";

/// Records who became leader and who stopped, as Events about the lock: for [`LeaderElectionConfig::events`].
///
/// # Examples
///
/// ```
/// use pintle_controller::leader_events;
/// use pintle_events::EventRecorder;
/// use pintle_leaderelect::LeaderElectionConfig;
///
/// fn told(recorder: EventRecorder) -> LeaderElectionConfig {
///     LeaderElectionConfig { events: Some(leader_events(recorder)), ..LeaderElectionConfig::default() }
/// }
/// ```
///
/// [`LeaderElectionConfig::events`]: pintle_leaderelect::LeaderElectionConfig::events
pub fn leader_events(recorder: EventRecorder) -> Arc<dyn Fn(&LeaderEvent) + Send + Sync> {
    Arc::new(move |event| {
        let lock = ObjectReference {
            api_version: event.resource.group_version.to_string(),
            kind: event.resource.kind.clone(),
            namespace: event.key.namespace().unwrap_or_default().into(),
            name: event.key.name().into(),
            uid: event.version.uid.clone(),
            resource_version: event.version.resource_version.clone(),
            field_path: String::new(),
        };
        recorder.event(lock, EventType::Normal, "LeaderElection", event.to_string());
    })
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A [`LeaderElector`] with whatever lock.
pub(super) trait Election: Send {
    fn run<'a>(
        &'a mut self,
        stop: &'a CancellationToken,
        work: Box<dyn FnMut(Leadership) -> Work + Send>,
    ) -> Pin<Box<dyn Future<Output = Option<TermEnd<()>>> + Send + 'a>>;
}

impl<L: Lock> Election for LeaderElector<L> {
    fn run<'a>(
        &'a mut self,
        stop: &'a CancellationToken,
        work: Box<dyn FnMut(Leadership) -> Work + Send>,
    ) -> Pin<Box<dyn Future<Output = Option<TermEnd<()>>> + Send + 'a>> {
        Box::pin(LeaderElector::run(self, stop, LeaderCallbacks::new(work)))
    }
}

/// Has the team work while this replica leads, or all the time where there is no election.
pub(super) async fn lead(
    team: &Arc<Team>,
    election: Option<&mut (dyn Election + 'static)>,
    stop: &CancellationToken,
) -> Result<(), ManagerError> {
    let Some(election) = election else {
        team.work(None).await;
        return Ok(());
    };
    while !stop.is_cancelled() {
        let team = team.clone();
        let work = move |leadership: Leadership| {
            let team = team.clone();
            Box::pin(async move { team.work(Some(&leadership)).await }) as Work
        };
        let ended = match caught(election.run(stop, Box::new(work))).await {
            Ok(Some(TermEnd { work: Some(Err(panic)), .. })) => Err(told(panic)),
            ended => ended,
        };
        let ended = ended.map_err(|panic| ManagerError::Runnable {
            name: NAME.into(),
            cause: format!("it panicked: {panic}").into(),
        })?;
        let reason = ended.map(|end| end.reason);
        if let Some(reason @ (LossReason::Deadline | LossReason::Usurped { .. } | LossReason::Deleted)) = reason {
            tracing::warn!(%reason, "the last term was lost");
        }
    }
    Ok(())
}

//! Controllers whose keys are divided among the replicas.

use std::pin::Pin;
use std::sync::Arc;

use pintle_leaderelect::{Leadership, Lease, Shard, Shards};
use pintle_meta::{ListWatch, ObjectApi};

use super::any::AnyController;
use super::team::Team;
use crate::error::ManagerError;
use crate::panic::caught;

type Work<'a> = Pin<Box<dyn Future<Output = Result<(), ManagerError>> + Send + 'a>>;

/// The shards of one controller.
pub(super) trait Sharding: Send {
    /// Runs the controller of each shard that this replica leads, until a stop is requested. If a controller or the
    /// election of the shards fails, a stop is requested.
    fn run<'a>(&'a mut self, team: &'a Team) -> Work<'a>;
}

/// The electors of the shards, and one controller for each shard.
pub(super) struct ShardGroup<A: ObjectApi<Lease> + ListWatch<Object = Lease>> {
    pub(super) shards: Shards<A>,
    pub(super) controllers: Vec<Arc<dyn AnyController>>,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone> Sharding for ShardGroup<A> {
    fn run<'a>(&'a mut self, team: &'a Team) -> Work<'a> {
        let Self { shards, controllers } = self;
        let controllers = &*controllers;
        Box::pin(async move {
            let work = |shard: Shard, leadership: Leadership| async move {
                if let Some(controller) = controllers.get(shard.index() as usize) {
                    team.run(&**controller, Some(&leadership)).await;
                }
            };
            let ended = caught(shards.run(team.stop().token(), work)).await;
            ended.map(drop).map_err(|panic| {
                team.stop().request();
                let cause = format!("panicked: {panic}").into();
                ManagerError::Runnable { name: "the election of the shards".into(), cause }
            })
        })
    }
}

//! Implements the API verbs for all kinds.
//!
//! Functions that write one object contain no `.await`. A function that writes an object reads the store, computes the
//! new object, and commits the object only if the inputs have not changed. The HTTP layer and the background tasks call
//! the functions in this module.

mod admission_chain;
mod admission_plugin;
mod collection;
mod commit;
mod create;
mod delegated;
mod delete;
mod lag;
mod list;
mod object_write;
mod pipeline;
mod pod_standards;
mod policies;
mod post;
mod rewrite;
mod scaling;
mod served;
mod transform;
mod update;
mod webhook_answers;
#[cfg(test)]
mod write_races;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use admission_plugin::Plugin;
#[cfg(test)]
pub(crate) use admission_plugin::{AdmissionOptions, AdmissionRequest};
pub(crate) use delete::{Deleted, FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
pub(crate) use list::{ListReply, SCAN_BATCH, Selected, Selection, compacted, is_uncached, parse_number};
use pintle_apimachinery::clock::Clock;
use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::metrics::Metrics;
use pintle_apimachinery::request::user::User;
use pintle_authz::{Attributes, Authenticator, Authorizer, Flow, Flows, Policies, Rbac, Tokens, Webhooks};
use pintle_discovery::Documents;
use pintle_json::Json;
use pintle_kinds::{Kind, Kinds};
use pintle_meta::__private::{Mutex, RwLock};
use pintle_serving::body_budget::BodyBudget;
use pintle_serving::offload::OffloadPermits;
use pintle_serving::webhook_client::LocalWebhooks;
use pintle_storage::{Db, Draft, History, Interner};
pub(crate) use served::{Served, Written, typed};
pub(crate) use transform::Transform;
pub(crate) use update::{Make, UpdateSource};

use crate::audit::AuditLog;
use crate::config::ApiServerConfig;
use crate::faults::Faults;
use pintle_storage::health::Health;

/// The maximum time that a request waits for the store to reach the requested revision.
pub(crate) const VERSION_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) db: Arc<Db>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) config: ApiServerConfig,
    pub(crate) authenticator: Authenticator,
    authorizer: Arc<Authorizer>,
    policies: Policies,
    webhooks: Webhooks,
    pub(crate) local_webhooks: LocalWebhooks,
    flows: Flows,
    pub(crate) faults: Faults,
    pub(crate) audit: AuditLog,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) body_budget: Arc<BodyBudget>,
    pub(crate) documents: Arc<Documents>,
    pub(crate) offload_permits: OffloadPermits,
    /// The admission plugins, in the order of their calls.
    pub(crate) admission_chain: Vec<Arc<dyn Plugin>>,
    /// The served kinds. The lock is held only to clone or replace the `Arc`.
    kinds: RwLock<Arc<Kinds>>,
    kinds_change_lock: Mutex<()>,
    random: Mutex<fastrand::Rng>,
}

impl Registry {
    pub(crate) fn new(config: ApiServerConfig, tokens: Option<Tokens>) -> Self {
        let clock = Arc::new(Clock::new(config.start_time));
        let history = History {
            max_changes: config.history,
            max_bytes: config.history_bytes,
            followed: config.watch_buffer.max(1),
            ..History::default()
        };
        let db = Db::new(config.first_revision, history, draft, clock.clone());
        let db = Arc::new(db.keeping_trees_of(pintle_builtin::caches_decoded));
        let kinds = if config.coordinated_leader_election {
            pintle_builtin::coordinated_kinds()
        } else {
            pintle_builtin::kinds()
        };
        let random = config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self {
            db,
            clock,
            authenticator: Authenticator::new(tokens, config.seed),
            authorizer: Arc::default(),
            policies: Policies::default(),
            webhooks: Webhooks::default(),
            local_webhooks: LocalWebhooks::default(),
            flows: Flows::default(),
            faults: Faults::new(config.seed.unwrap_or(0)),
            health: Health::default(),
            body_budget: Arc::new(BodyBudget::new(config.body_bytes)),
            audit: AuditLog::new(config.audit),
            metrics: Metrics::default(),
            documents: Arc::new(if config.offload { Documents::default() } else { Documents::inline() }),
            offload_permits: if config.offload { OffloadPermits::default() } else { OffloadPermits::inline() },
            admission_chain: admission_chain::chain(),
            kinds: RwLock::new(Arc::new(pintle_apiextensions::with_definition_strategy(kinds))),
            kinds_change_lock: Mutex::default(),
            random: Mutex::new(random),
            config,
        }
    }

    /// Returns the served kinds. Later changes to the served kinds do not affect the returned set.
    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.kinds.read().clone()
    }

    /// Changes the served kinds. Requests in flight continue to use the old set of kinds. Readers of the served kinds
    /// do not wait while `change` runs.
    pub(crate) fn change_kinds(&self, change: impl FnOnce(&mut Kinds)) {
        let _guard = self.kinds_change_lock.lock();
        let mut new = Kinds::clone(&self.kinds());
        change(&mut new);
        let mut kinds = self.kinds.write();
        let old = std::mem::replace(&mut *kinds, Arc::new(new));
        drop(kinds);
        // Release the lock first, because dropping the last reference to the old set can take a long time.
        drop(old);
    }

    /// Returns `true` if `kind` is still served, and no other definition or schema has replaced it.
    pub(crate) fn serves(&self, kind: &Kind) -> bool {
        let kinds = self.kinds();
        let identity = |kind: &Kind| (kind.strategy.form(), kind.strategy.definition().map(str::to_owned));
        let served = kinds.resource(&kind.group, &kind.version, &kind.plural);
        served.is_some_and(|served| identity(served) == identity(kind))
    }

    pub(crate) fn rbac(&self) -> Rbac<'_> {
        self.authorizer.rules_in(&self.db)
    }

    pub(crate) fn flow(&self, user: &User, attributes: &Attributes<'_>) -> Option<Flow> {
        self.flows.classify(&self.db, user, attributes)
    }

    pub(crate) fn context<'a>(&'a self, user: &'a User) -> Context<'a> {
        Context { now: self.clock.now(), cluster: &*self.db, user, has_labels: true }
    }

    pub(crate) fn uuid(&self) -> String {
        let bits = self.with_random(|random| random.u128(..));
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    pub(crate) fn generated_name(&self, base: &str) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        const LONGEST_BASE: usize = 58;
        let base = base.char_indices().nth(LONGEST_BASE).map_or(base, |(end, _)| &base[..end]);
        let suffix: String =
            self.with_random(|random| (0..5).map(|_| char::from(ALPHABET[random.usize(..ALPHABET.len())])).collect());
        format!("{base}{suffix}")
    }

    pub(crate) fn with_random<R>(&self, generate: impl FnOnce(&mut fastrand::Rng) -> R) -> R {
        generate(&mut self.random.lock())
    }
}

pub(crate) fn draft(interner: &Arc<Interner>, resource: &str, object: &Json) -> Draft {
    Draft::new(interner, object, pintle_apiextensions::member_order(resource), pintle_builtin::claims(resource, object))
        .selectable(pintle_builtin::selectable(resource, object))
}

#[cfg(test)]
assert_no_debug!(Served, Written, Deleted, object_write::Write<'static>, pipeline::Complete, pintle_storage::Charge);
#[cfg(test)]
assert_no_debug!(admission_plugin::AdmissionRequest<'static>, pintle_kinds::post_handler::Question);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_kinds_does_not_wait_for_a_change() {
        let registry = Registry::new(ApiServerConfig::default(), None);
        registry.change_kinds(|_| assert!(registry.kinds.try_read().is_some()));
    }
}

//! The verbs, for every kind alike: what a request does once it is known what it asks for.
//!
//! No function that writes one object awaits: each reads the store, works the new object out, and commits it only if the store still holds
//! what it read. The HTTP shell and the background tasks call the same functions.

mod admission_chain;
mod admission_plugin;
mod body_budget;
mod collection;
mod commit;
mod continue_token;
mod create;
mod delete;
mod elsewhere;
mod lag;
mod list;
mod nesting;
mod object_write;
mod pipeline;
mod pod_standards;
mod post;
mod rewrite;
mod scaling;
mod served;
mod size;
mod transform;
mod update;
#[cfg(test)]
mod write_races;
mod writer;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

pub(crate) use admission_plugin::Plugin;
#[cfg(test)]
pub(crate) use admission_plugin::{AdmissionOptions, AdmissionRequest};
pub(crate) use body_budget::{BodyBudget, LARGEST_BODY, Unread};
#[cfg(any(test, fuzzing))]
pub(crate) use continue_token::fuzz as fuzz_token;
pub(crate) use delete::{Deleted, FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
pub(crate) use list::{LOOKS, ListReply, Selected, Selection, compacted, is_uncached, parse_number};
use pintle_json::Json;
pub(crate) use served::{Served, Written, typed};
pub(crate) use transform::Transform;
pub(crate) use update::{Make, UpdateSource};
pub(crate) use writer::{OWN_MANAGER, Writer};

use crate::audit::AuditLog;
use crate::auth::{Attributes, Authenticator, Authorizer, Flow, Flows, Rbac, Tokens};
use crate::clock::Clock;
use crate::config::ApiServerConfig;
use crate::crd;
use crate::discovery::Documents;
use crate::faults::Faults;
use crate::health::Health;
use crate::kinds::{self, Context, Kinds};
use crate::metrics::Metrics;
use crate::offload::OffloadPermits;
use crate::request::user::User;
use crate::store::{Db, Draft, History, Interner};

/// How long a request waits for a revision that is yet to come.
pub(crate) const VERSION_PATIENCE: Duration = Duration::from_secs(3);

/// The API behind the HTTP shell: state, and the verbs as its methods.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) db: Db,
    pub(crate) clock: Arc<Clock>,
    pub(crate) config: ApiServerConfig,
    pub(crate) authenticator: Authenticator,
    authorizer: Authorizer,
    flows: Flows,
    pub(crate) faults: Faults,
    pub(crate) audit: AuditLog,
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) bodies: Arc<BodyBudget>,
    pub(crate) documents: Arc<Documents>,
    pub(crate) turns: OffloadPermits,
    /// Who has a say in requests.
    pub(crate) chain: Vec<Arc<dyn Plugin>>,
    /// It is locked for as long as it takes to copy or to replace a reference.
    kinds: RwLock<Arc<Kinds>>,
    /// Whose turn it is to change them.
    changing_kinds: Mutex<()>,
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
        let kinds = if config.coordinated_leader_election { Kinds::coordinated() } else { Kinds::builtin() };
        let random = config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self {
            db,
            clock,
            authenticator: Authenticator::new(tokens, config.seed),
            authorizer: Authorizer::default(),
            flows: Flows::default(),
            faults: Faults::new(config.seed.unwrap_or(0)),
            health: Health::default(),
            bodies: Arc::new(BodyBudget::new(config.body_bytes)),
            audit: AuditLog::new(config.audit),
            metrics: Metrics::default(),
            documents: Arc::default(),
            turns: OffloadPermits::new(),
            chain: admission_chain::chain(),
            kinds: RwLock::new(Arc::new(crd::ruled(kinds))),
            changing_kinds: Mutex::default(),
            random: Mutex::new(random),
            config,
        }
    }

    /// The kinds that are served now. The answer does not change while a request works with it.
    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the kinds that are served; requests that have begun keep the old ones, and none waits for what is changed.
    pub(crate) fn change_kinds(&self, change: impl FnOnce(&mut Kinds)) {
        let _turn = self.changing_kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = Kinds::clone(&self.kinds());
        change(&mut new);
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *kinds, Arc::new(new));
        drop(kinds);
        // What nobody else has goes with it, which may take a while.
        drop(old);
    }

    /// Who may do what.
    pub(crate) fn rbac(&self) -> Rbac<'_> {
        self.authorizer.rules_in(&self.db)
    }

    /// What a request falls under.
    pub(crate) fn flow(&self, user: &User, attributes: &Attributes<'_>) -> Option<Flow> {
        self.flows.classify(&self.db, user, attributes)
    }

    /// What the rules of kinds may look at when `user` asks.
    pub(crate) fn context<'a>(&'a self, user: &'a User) -> Context<'a> {
        Context { now: self.clock.now(), cluster: &self.db, user, labelled: true }
    }

    /// A random UUID, version 4.
    pub(crate) fn uuid(&self) -> String {
        let bits = self.with_random(|random| random.u128(..));
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// A name made from a base, as `generateName` asks.
    pub(crate) fn generated_name(&self, base: &str) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        const LONGEST_BASE: usize = 58;
        let base = base.char_indices().nth(LONGEST_BASE).map_or(base, |(end, _)| &base[..end]);
        let suffix: String =
            self.with_random(|random| (0..5).map(|_| char::from(ALPHABET[random.usize(..ALPHABET.len())])).collect());
        format!("{base}{suffix}")
    }

    pub(crate) fn with_random<R>(&self, use_it: impl FnOnce(&mut fastrand::Rng) -> R) -> R {
        use_it(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is written of an object.
pub(crate) fn draft(interner: &Arc<Interner>, resource: &str, object: &Json) -> Draft {
    Draft::new(interner, object, crd::order(resource), kinds::claims(resource, object))
        .selectable(kinds::selectable(resource, object))
}

#[cfg(test)]
assert_no_debug!(Served, Written, Deleted, object_write::Write<'static>, pipeline::Complete, crate::store::Charge);
#[cfg(test)]
assert_no_debug!(admission_plugin::AdmissionRequest<'static>, kinds::posting::Question);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_what_is_served_waits_for_no_change_of_that() {
        let registry = Registry::new(ApiServerConfig::default(), None);
        registry.change_kinds(|_| assert!(registry.kinds.try_read().is_ok()));
    }
}

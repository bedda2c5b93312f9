//! What all requests and background tasks share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::audit::AuditLog;
use crate::auth::{Authenticator, Tokens, User};
use crate::clock::Clock;
use crate::db::Db;
use crate::faults::Faults;
use crate::health::Health;
use crate::kinds::{Context, Registry};
use crate::server::ApiServerConfig;
use crate::store::History;

/// How long a request waits for a revision that is yet to come.
pub(crate) const VERSION_PATIENCE: Duration = Duration::from_secs(3);

/// The API behind the HTTP shell: state, and the handlers of [`rest`](crate::rest) as its methods.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) db: Db,
    pub(crate) clock: Arc<Clock>,
    pub(crate) config: ApiServerConfig,
    pub(crate) authenticator: Authenticator,
    pub(crate) faults: Faults,
    pub(crate) audit: AuditLog,
    pub(crate) health: Health,
    kinds: RwLock<Arc<Registry>>,
    random: Mutex<fastrand::Rng>,
}

impl Api {
    pub(crate) fn new(config: ApiServerConfig, tokens: Option<Tokens>) -> Self {
        let clock = Arc::new(Clock::new(config.start_time));
        let history = History {
            max_changes: config.history,
            max_bytes: config.history_bytes,
            followed: config.watch_buffer.max(1),
            ..History::default()
        };
        let db = Db::new(config.first_revision, history, clock.clone());
        let random = config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self {
            db,
            clock,
            authenticator: Authenticator::new(tokens),
            faults: Faults::new(config.seed.unwrap_or(0)),
            health: Health::default(),
            audit: AuditLog::new(config.audit),
            kinds: RwLock::new(Arc::new(Registry::builtin())),
            random: Mutex::new(random),
            config,
        }
    }

    /// The kinds that are served now. The answer does not change while a request works with it.
    pub(crate) fn kinds(&self) -> Arc<Registry> {
        self.kinds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the kinds that are served; requests that have begun keep the old ones.
    pub(crate) fn change_kinds(&self, change: impl FnOnce(&mut Registry)) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut kinds));
    }

    /// What the rules of kinds may look at when `user` asks.
    pub(crate) fn context<'a>(&'a self, user: &'a User) -> Context<'a> {
        Context { now: self.clock.now(), cluster: &self.db, user }
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

//! Decides when the reflector must list because its watches have been silent.

use std::time::{Duration, Instant};

use super::watch::BOOKMARK_PERIOD;

/// The minimum number of consecutive silent watches before a list.
const SILENT_WATCHES: u32 = 2;

/// The maximum silence before a list.
const MAX_SILENCE: Duration = Duration::from_secs(2 * 3600);

/// Tracks consecutive silent watches. A watch is silent if it ends without having delivered an event or a bookmark.
///
/// After a restore from a backup, the server accepts a watch at a higher revision, but sends nothing until it reaches
/// this revision. The watch of an unchanged resource is also silent if the server sends no bookmarks. To limit the load
/// on such a server, the silence before a list doubles after each list until a bookmark arrives.
#[derive(Debug)]
pub(super) struct Silence {
    watches: u32,
    /// The time at which the first silent watch was opened.
    since: Option<Instant>,
    limit: Duration,
}

impl Default for Silence {
    fn default() -> Self {
        Self { watches: 0, since: None, limit: BOOKMARK_PERIOD }
    }
}

impl Silence {
    /// Records a silent watch, and returns `true` if the silence has lasted so long that the reflector must list.
    pub(super) fn watch_ended(&mut self, now: Instant, opened: Instant) -> bool {
        self.watches = self.watches.saturating_add(1);
        let lasted = now.saturating_duration_since(*self.since.get_or_insert(opened));
        if self.watches < SILENT_WATCHES || lasted < self.limit {
            return false;
        }
        self.limit = lasted.saturating_mul(2).min(MAX_SILENCE);
        self.end();
        true
    }

    pub(super) fn end(&mut self) {
        (self.watches, self.since) = (0, None);
    }

    /// Ends the silence and resets the limit after a bookmark.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

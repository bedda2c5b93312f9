//! The debug page of a manager, as users see it.

use pintle_leaderelect::ShardsStatus;

use super::Manager;

impl Manager {
    /// Sets whether the manager's server has the debug page at `/debug`, and the page's data at `/debug.json`. The
    /// default is true. Without [`serve`](Self::serve), there is no server.
    ///
    /// The page shows the current state of the manager: queues, informers, leases and shards. The page also shows the
    /// keys that fail, are slow or are active. Each key is shown with the causes of its calls. The search explains one
    /// key. No data is collected for the page in advance. Each answer is computed when it is requested, has a bounded
    /// size, and does not interrupt the workers.
    ///
    /// # Security
    ///
    /// Any client that reaches the address can read the page. The page shows names of objects, error texts of
    /// reconcilers and of the API server, and names of replicas. The page does not show contents of objects or
    /// credentials. Do not put secrets into error texts. To restrict the access in a cluster, use a NetworkPolicy, or
    /// pass `false` to disable the page.
    ///
    /// # The members of `/debug.json`
    ///
    /// All members always exist. They can be null only where this is described. Times are RFC 3339 texts in UTC, and
    /// durations are seconds. Lists have up to 100 items and texts up to 400 characters. Lists of keys have up to 10
    /// items, or fewer with more than 20 controllers. New members may be added. If a member is removed or changes its
    /// meaning, `format` increases.
    ///
    /// | member | meaning |
    /// |---|---|
    /// | `format` | the version of this format: 1 |
    /// | `name` | the name of the manager |
    /// | `now`, `started`, `uptime_seconds` | the time of the answer, the time at which the run began, and the difference |
    /// | `phase` | `starting`, `standby`, `running` or `stopping` |
    /// | `waits_for` | the reason of the phase `starting`, otherwise null |
    /// | `live`, `ready` | the checks of both probes: `name`, and `problem`, which is null if the check passes |
    /// | `leader` | null without a leader election; otherwise `lease`; `holder`, which is null before the first read and empty if the lease is free; `is_leader`; and `seconds_left` until the term of this replica ends unless it is renewed, or null |
    /// | `controllers` | see below |
    /// | `informers` | `name`, `resource`, `state` (`starting`, `listing`, `streaming`, `synced`, `degraded`, `stopped`, `unknown`), `since` (null before the start), `objects`, `received` (the progress of a list, otherwise null), `problem` (of a degraded or stopped informer, otherwise null), and `last_failure` (`at` and `text`, or null) |
    /// | `shards` | `name`, `member` (the membership lease of this replica, like `leader`), and `shards`: `index` and the members of `leader` |
    /// | `left_out` | the number of `controllers`, `informers` and `shards` that are not listed |
    /// | `explanation` | null, or the explanation of a key |
    ///
    /// A controller has these members:
    ///
    /// | member | meaning |
    /// |---|---|
    /// | `name`, `running` | its name, and whether it runs |
    /// | `max_concurrent_reconciles` | the number of keys that are reconciled concurrently |
    /// | `queue` | null if it does not run; otherwise the number of keys that are `queued`, `in_flight`, `dirty_in_flight` (in flight, and added again), `delayed`, or `idle` (remembered only for their failures) |
    /// | `blocked` | calls that block their thread: `key` and `seconds` |
    /// | `sources` | `name` and `problem`, which is null if the source is up to date |
    /// | `failing`, `slowest`, `active` | the keys with the most failures in a row, with the longest last call, and with the most causes |
    ///
    /// A key has the members `key`; `state` (`in_flight`, `in_flight_dirty`, `queued`, `retry`, `requeue`, `idle`, `not_running`);
    /// `due_in_seconds` (of the states `retry` and `requeue`, otherwise null); `causes_total`; `causes`, the newest three, newest first,
    /// with `at` and `text`; and `last_call`, which is null before the first call ends: `at`, `seconds`, `error` (null after a success) and
    /// `failures` in a row.
    ///
    /// For `/debug.json?controller=website&key=team-a/blog`, `explanation` describes that key. `explanation` has the
    /// member `controller` and the members of a key. The `causes` of the explanation are all remembered causes, not
    /// only the newest three. For an unknown controller, and for a text that is not a key, the answer has the status
    /// 404 and a text. For an invalid query, the answer has the status 400 and a text.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_operator::Manager;
    ///
    /// fn without_debug_page(manager: Manager) -> Manager {
    ///     manager.serve(([0, 0, 0, 0], 8080)).debug(false)
    /// }
    /// ```
    pub fn debug(mut self, enabled: bool) -> Self {
        self.has_debug = enabled;
        self
    }

    /// Shows the state of shards on the debug page. The program [runs](pintle_leaderelect::Shards::run) the shards
    /// itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Error;
    /// use pintle_leaderelect::{Leadership, Shard, ShardsConfig};
    /// use pintle_operator::Manager;
    ///
    /// fn with_shards(manager: Manager) -> Result<Manager, Error> {
    ///     let mut shards = manager.cluster().shards("", "website-controller", ShardsConfig::default())?;
    ///     let manager = manager.debug_shards(shards.status());
    ///     Ok(manager.service("shards", async move |stop| {
    ///         shards.run(&stop, async |_: Shard, leadership: Leadership| leadership.cancelled().await).await;
    ///         Ok(())
    ///     }))
    /// }
    /// ```
    pub fn debug_shards(mut self, status: ShardsStatus) -> Self {
        self.shards.push(status);
        self
    }
}

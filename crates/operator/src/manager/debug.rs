//! The settings of the debug page and its documentation for users.

use pintle_sharding::ShardsStatus;

use super::Manager;

impl Manager {
    /// Sets whether the manager serves the debug page at `/debug` and its data at `/debug.json`. The default is `true`.
    /// The page is served only if the manager [serves](Self::serve) probes.
    ///
    /// The page shows the current state of the manager's queues, informers, leases and shards, and lists failing, slow
    /// and frequently reconciled keys. For each key, the page shows the causes of its reconciliations. To explain a
    /// single key, search for it on the page. The manager computes each response on request, and collects no data in
    /// advance. The size of a response is limited, and computing it does not interrupt the workers.
    ///
    /// # Security
    ///
    /// The page is visible to every client that can reach the address. The page contains the names of objects and
    /// replicas, and errors from reconcilers and the API server. The page does not contain the contents of objects or
    /// credentials. Because the page shows error messages, error messages must not contain secrets. To restrict access,
    /// use a NetworkPolicy. To disable the page, pass `false`.
    ///
    /// # The members of `/debug.json`
    ///
    /// The JSON always contains all members. A member is never null, unless its description says so. Times are RFC 3339
    /// strings in UTC, and durations are in seconds. Lists contain at most 100 items, and strings at most 400
    /// characters. Lists of keys contain at most 10 items, or fewer if there are more than 20 controllers. Later
    /// versions may add members. `format` is incremented when a member is removed or its meaning changes.
    ///
    /// | member | meaning |
    /// |---|---|
    /// | `format` | the version of this format: 1 |
    /// | `name` | the manager's name |
    /// | `now`, `started`, `uptime_seconds` | the time of the response, the time at which the manager started, and the difference |
    /// | `phase` | `starting`, `standby`, `running` or `stopping` |
    /// | `waits_for` | what the manager waits for in the phase `starting`, otherwise null |
    /// | `live`, `ready` | each probe's checks: `name`, and `problem`, which is null if the check passes |
    /// | `leader` | null without a leader election; otherwise `lease`; `holder`, which is null before the first read and empty if the lease is free; `is_leader`; `seconds_left` until this replica's term ends unless it is renewed, or null; and `last_error`, which is null if the requests for the lease succeed |
    /// | `controllers` | see below |
    /// | `informers` | `name`, `resource`, `state` (`starting`, `listing`, `streaming`, `synced`, `degraded`, `stopped`, `unknown`), `since` (null before the start), `objects`, `received` (the progress of a list, otherwise null), `problem` (of a degraded or stopped informer, otherwise null), `undecodable` (the number of objects that cannot be decoded), `first_undecodable` (the key and the error of one of them, or null), and `last_failure` (`at` and `text`, or null) |
    /// | `shards` | `name`, `member` (this replica's membership lease, like `leader`), and `shards`: `index` and the members of `leader` |
    /// | `left_out` | the number of `controllers`, `informers` and `shards` that are not listed |
    /// | `explanation` | null, or the explanation of a key |
    ///
    /// A controller has these members:
    ///
    /// | member | meaning |
    /// |---|---|
    /// | `name`, `running` | the controller's name, and whether it runs |
    /// | `max_concurrent_reconciles` | the limit on concurrent reconciliations |
    /// | `queue` | null if the controller does not run; otherwise the number of keys that are `queued`, `in_flight`, `dirty_in_flight` (in flight, and added again), `delayed`, or `idle` (remembered only for their failures) |
    /// | `blocked` | calls that block their thread: `key` and `seconds` |
    /// | `sources` | `name` and `problem`, which is null if the source is up to date |
    /// | `failing`, `slowest`, `active` | the keys with the most failures in a row, with the longest last call, and with the most causes |
    ///
    /// A key has these members:
    ///
    /// | member | meaning |
    /// |---|---|
    /// | `key` | the key as text |
    /// | `state` | `in_flight`, `in_flight_dirty`, `queued`, `retry`, `requeue`, `idle` or `not_running` |
    /// | `due_in_seconds` | in the states `retry` and `requeue`, the time until the delay ends; otherwise null |
    /// | `causes_total` | the total number of causes |
    /// | `causes` | the newest three causes, newest first, each with `at` and `text` |
    /// | `last_call` | null before the first call ends; otherwise `at`, `seconds`, `error` (null after a success) and `failures` in a row |
    ///
    /// For `/debug.json?controller=website&key=team-a/blog`, `explanation` describes the key `team-a/blog`.
    /// `explanation` has the member `controller` and all members of a key from the table above. `causes` lists all
    /// remembered causes. If the controller is unknown or the text is not a valid key, the status is 404 and the
    /// response contains a message. If the query is invalid, the status is 400 and the response contains a message.
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

    /// Adds shards to the debug page. The caller must [run](pintle_sharding::Shards::run) the shards.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Error;
    /// use pintle_leaderelect::Leadership;
    /// use pintle_operator::Manager;
    /// use pintle_sharding::{Shard, ShardsConfig};
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

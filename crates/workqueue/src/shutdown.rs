//! Shutdown modes.

/// Determines how a queue shuts down. The variants are in order from the most lenient to the strictest mode. The mode
/// can only become stricter during a shutdown.
///
/// The queue rejects adds in every mode. A key whose delay ends after the beginning of the shutdown is never queued.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{ShutdownMode, WorkQueue};
///
/// let queue: WorkQueue<&str> = WorkQueue::default();
/// queue.add("blog");
/// let report = queue.shut_down(ShutdownMode::FinishInFlight).wait();
/// assert!(report.complete); // No key is in flight.
/// assert_eq!(report.queued, ["blog"]);
/// assert!(ShutdownMode::FinishInFlight < ShutdownMode::Abandon);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShutdownMode {
    /// Workers still receive all queued keys, including keys that were added again while in flight. The shutdown ends
    /// when no key is queued or in flight. This mode corresponds to client-go's `ShutDown` and `ShutDownWithDrain`.
    FinishBacklog,
    /// Workers receive no more keys. The shutdown ends when no key is in flight.
    FinishInFlight,
    /// The shutdown ends immediately. Existing guards stay valid, but the shutdown does not wait for them.
    Abandon,
}

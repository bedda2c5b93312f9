//! The cooperative budget of tasks whose futures are always ready.

use std::cell::Cell;
use std::task::{Context, Poll};

use crate::clock::Timer;

thread_local! {
    static READY_IN_A_ROW: Cell<u32> = const { Cell::new(0) };
}

/// The number of operations on a thread that do not wait before the next one yields, if the executor has no budget.
/// This number equals tokio's cooperative budget.
const BUDGET: u32 = 128;

/// Consumes one unit of the executor's budget, or of a budget per thread if the executor has none. Returns `Pending` if
/// the task must yield. The task is then woken again.
pub fn poll_budget<C: Timer>(clock: &C, cx: &mut Context<'_>) -> Poll<()> {
    clock.poll_proceed(cx).unwrap_or_else(|| {
        if has_budget() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Restores the thread's budget, because the current task waits.
#[inline]
pub fn restore_budget() {
    READY_IN_A_ROW.set(0);
}

/// Polls never yield in the model checkers loom and shuttle.
#[inline]
fn has_budget() -> bool {
    let ready = READY_IN_A_ROW.get();
    let has_budget = ready < BUDGET || cfg!(any(pintle_loom, pintle_shuttle));
    READY_IN_A_ROW.set(if has_budget { ready + 1 } else { 0 });
    has_budget
}

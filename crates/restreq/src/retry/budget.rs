//! The retry budget of a client.

use std::sync::atomic::{AtomicU64, Ordering};

use pintle_meta::__private::Mutex;
use tokio::time::Instant;

/// The retry budget that all requests of a client share. The budget grows by 0.2 retries with each request and by 50
/// retries per second, up to 500 retries.
///
/// If all requests fail, the budget limits the additional load on an overloaded server. A client that sends only a few
/// requests can retry each of these requests.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    account: Mutex<Option<Account>>,
    /// The number of requests since the last retry. The counter is atomic, so that requests without retries do not need
    /// to lock the account or read the clock.
    requests: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    retries: f64,
    at: Instant,
}

const MOST: f64 = 500.0;
const WITH_A_REQUEST: f64 = 0.2;
const WITH_A_SECOND: f64 = 50.0;

impl Budget {
    pub(crate) fn deposit(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn withdraw(&self, now: Instant) -> bool {
        let mut account = self.account.lock();
        let Account { mut retries, at } = account.unwrap_or(Account { retries: MOST, at: now });
        retries += self.requests.swap(0, Ordering::Relaxed) as f64 * WITH_A_REQUEST;
        retries += now.saturating_duration_since(at).as_secs_f64() * WITH_A_SECOND;
        retries = retries.min(MOST);
        let is_enough = retries >= 1.0;
        retries -= if is_enough { 1.0 } else { 0.0 };
        *account = Some(Account { retries, at: at.max(now) });
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn retry_budget_grows_with_requests_and_time() {
        let (budget, start) = (Budget::default(), Instant::now());
        let spent = |now| std::iter::from_fn(|| budget.withdraw(now).then_some(())).count();
        assert_eq!(spent(start), 500);
        for _ in 0..101 {
            budget.deposit();
        }
        assert_eq!(spent(start), 20);
        assert_eq!(spent(start + Duration::from_millis(2001)), 100);
        assert_eq!(spent(start), 0, "an earlier time earns nothing");
        assert_eq!(spent(start + Duration::from_secs(3600)), 500);
    }
}

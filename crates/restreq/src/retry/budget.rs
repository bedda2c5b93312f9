//! How many retries a client has in all.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

/// What all requests of a client may spend on retries: a fifth of a retry is earned with each request, fifty with each second, and five
/// hundred are kept at most. So a client whose requests all fail asks little more of a server in trouble than one whose requests
/// succeed, and one that asks seldom retries as often as it likes.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<Option<Account>>);

#[derive(Clone, Copy, Debug)]
struct Account {
    retries: f64,
    at: Instant,
}

const MOST: f64 = 500.0;
const WITH_A_REQUEST: f64 = 0.2;
const WITH_A_SECOND: f64 = 50.0;

impl Budget {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// There is a request.
    pub(crate) fn deposit(&self, now: Instant) {
        self.change(now, |retries| *retries += WITH_A_REQUEST);
    }

    /// Whether there may be another retry, which is spent then.
    pub(crate) fn withdraw(&self, now: Instant) -> bool {
        self.change(now, |retries| {
            let is_enough = *retries >= 1.0;
            *retries -= if is_enough { 1.0 } else { 0.0 };
            is_enough
        })
    }

    fn change<T>(&self, now: Instant, change: impl FnOnce(&mut f64) -> T) -> T {
        // Nothing here panics half-way.
        let mut account = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Account { mut retries, at } = account.unwrap_or(Account { retries: MOST, at: now });
        let earned = now.saturating_duration_since(at).as_secs_f64() * WITH_A_SECOND;
        retries = (retries + earned).min(MOST);
        let result = change(&mut retries);
        *account = Some(Account { retries: retries.min(MOST), at: at.max(now) });
        result
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn retries_are_earned_with_requests_and_time_and_no_more_are_spent() {
        let (budget, start) = (Budget::new(), Instant::now());
        let spent = |now| std::iter::from_fn(|| budget.withdraw(now).then_some(())).count();
        assert_eq!(spent(start), 500);
        for _ in 0..101 {
            budget.deposit(start);
        }
        assert_eq!(spent(start), 20);
        assert_eq!(spent(start + Duration::from_millis(2001)), 100);
        assert_eq!(spent(start), 0, "a time before the last one earns nothing");
        assert_eq!(spent(start + Duration::from_secs(3600)), 500);
    }
}

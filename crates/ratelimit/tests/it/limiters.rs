//! client-go's tests of its rate limiters (rows L1 to L5 in `tests/ROWS.md`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pintle_ratelimit::{
    BucketRateLimiter, Clock, ExponentialFailureRateLimiter, FastSlowRateLimiter, ItemRateLimiter, KeepFailures,
    ManualClock, MaxOfRateLimiter, RateLimiter, TokenBucket, WithMaxWaitRateLimiter, default_controller_rate_limiter,
};

use crate::{MS, NANO, SECOND};

fn remember<L: RateLimiter<&'static str>>(limiter: L) -> (ItemRateLimiter<&'static str, L>, Instant) {
    (ItemRateLimiter::new(limiter, KeepFailures::UntilForgotten), ManualClock::new().now())
}

/// Checks the delays of two items: After these failures, `forget` is called for "one", and "one" fails
/// again. After that, `forget` is called for "one", and "one" fails again.
fn five_two_forget<L: RateLimiter<&'static str>>(limiter: L, one: [Duration; 5], two: [Duration; 2]) {
    let (mut limiter, now) = remember(limiter);
    assert_eq!(one.map(|_| limiter.when(&"one", now)), one);
    assert_eq!(limiter.num_requeues(&"one", now), 5);
    assert_eq!(two.map(|_| limiter.when(&"two", now)), two);
    assert_eq!(limiter.num_requeues(&"two", now), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one", now), 0);
    assert_eq!(limiter.when(&"one", now), one[0]);
}

#[test]
fn l1_item_exponential() {
    let limiter = ExponentialFailureRateLimiter::new(MS, SECOND);
    five_two_forget(limiter, [MS, 2 * MS, 4 * MS, 8 * MS, 16 * MS], [MS, 2 * MS]);
}

#[test]
fn l2_item_exponential_overflow() {
    let nth = |base, max, n| {
        let (mut limiter, now) = remember(ExponentialFailureRateLimiter::new(base, max));
        (0..n).map(|_| limiter.when(&"one", now)).last()
    };
    assert_eq!(nth(MS, 1000 * SECOND, 6), Some(32 * MS));
    assert_eq!(nth(MS, 1000 * SECOND, 1001), Some(1000 * SECOND));
    assert_eq!(nth(60 * SECOND, 3_600_000 * SECOND, 3), Some(240 * SECOND));
    assert_eq!(nth(60 * SECOND, 3_600_000 * SECOND, 1001), Some(3_600_000 * SECOND));
    // Floating-point arithmetic would compute wrong delays for a product of 2^63 ns, and for zero times
    // infinity.
    let huge = Duration::from_nanos(i64::MAX as u64);
    assert_eq!(nth(Duration::from_nanos(1 << 20), huge, 44), Some(huge));
    assert_eq!(nth(Duration::ZERO, SECOND, 2000), Some(Duration::ZERO));
}

#[test]
fn l3_item_fast_slow() {
    let limiter = FastSlowRateLimiter::new(5 * MS, 10 * SECOND, 3);
    five_two_forget(limiter, [5 * MS, 5 * MS, 5 * MS, 10 * SECOND, 10 * SECOND], [5 * MS, 5 * MS]);
}

#[test]
fn l3_without_fast_attempts_all_are_slow() {
    let (mut limiter, now) = remember(FastSlowRateLimiter::new(5 * MS, 10 * SECOND, 0));
    assert_eq!(limiter.when(&"one", now), 10 * SECOND);
}

#[test]
fn l4_max_of() {
    let limiter: MaxOfRateLimiter<&'static str> = MaxOfRateLimiter::new(vec![
        Box::new(FastSlowRateLimiter::new(5 * MS, 3 * SECOND, 3)),
        Box::new(ExponentialFailureRateLimiter::new(MS, SECOND)),
    ]);
    five_two_forget(limiter, [5 * MS, 5 * MS, 5 * MS, 3 * SECOND, 3 * SECOND], [5 * MS, 5 * MS]);
}

#[test]
fn l4_max_of_no_limiters_is_zero() {
    let (mut limiter, now) = remember(MaxOfRateLimiter::<&'static str>::new(Vec::new()));
    assert_eq!((limiter.when(&"one", now), limiter.num_requeues(&"one", now)), (Duration::ZERO, 0));
}

struct Stepped(u32);

impl RateLimiter<&'static str> for Stepped {
    fn delay(&mut self, _: &&'static str, _: u32, _: Instant) -> Duration {
        if self.0 < 100 { 5 * MS } else { 1000 * SECOND }
    }

    fn charge(&mut self, _: &&'static str, _: Instant) {
        self.0 += 1;
    }
}

#[test]
fn l5_with_max_wait() {
    let (mut limiter, now) = remember(WithMaxWaitRateLimiter::new(Stepped(0), 500 * SECOND));
    for _ in 0..100 {
        assert_eq!(limiter.when(&"one", now), 5 * MS);
    }
    for _ in 0..100 {
        assert_eq!(limiter.when(&"one", now), 500 * SECOND);
    }
}

#[test]
fn default_controller_limiter_uses_the_longer_delay() {
    let now = ManualClock::new().now();
    let mut limiter = ItemRateLimiter::new(default_controller_rate_limiter(), KeepFailures::UntilForgotten);
    for item in 0..100 {
        assert_eq!(limiter.when(&item, now), 5 * MS, "within the burst of the bucket");
    }
    assert_eq!(limiter.when(&100, now), 100 * MS);
    assert_eq!(limiter.when(&101, now), 200 * MS);
    assert_eq!(limiter.num_requeues(&100, now), 1);
    // The first 18 delays are below the maximum of 1000 s. The 19th failure reaches the maximum.
    let last: Vec<_> = (0..18).map(|_| limiter.when(&0, now + 3600 * SECOND)).collect();
    assert_eq!((last[16], last[17]), (655_360 * MS, 1000 * SECOND));
}

#[test]
fn bucket_limiter_stores_no_items() {
    let now = ManualClock::new().now();
    let bucket = BucketRateLimiter::new(TokenBucket::new(1.0, 1, now));
    let mut limiter = ItemRateLimiter::new(bucket, KeepFailures::UntilForgotten);
    assert_eq!([limiter.when(&"a", now), limiter.when(&"b", now)], [Duration::ZERO, SECOND]);
    assert_eq!((limiter.num_requeues(&"a", now), limiter.len()), (0, 0));
}

#[derive(Clone, Default)]
struct Remembers(Arc<Mutex<BTreeSet<u32>>>);

impl RateLimiter<u32> for Remembers {
    fn delay(&mut self, item: &u32, _: u32, _: Instant) -> Duration {
        self.0.lock().unwrap().insert(*item);
        MS
    }

    fn forget(&mut self, item: &u32) {
        self.0.lock().unwrap().remove(item);
    }
}

#[test]
fn forget_is_called_for_expired_items() {
    let (clock, inner) = (ManualClock::new(), Remembers::default());
    let mut limiter = ItemRateLimiter::new(inner.clone(), KeepFailures::For(SECOND));
    for item in 0..1000 {
        limiter.when(&item, clock.now());
        clock.advance(SECOND + MS);
    }
    let (kept, inside) = (limiter.len(), inner.0.lock().unwrap().len());
    assert_eq!(inside, kept);
    assert!(kept <= 64, "{kept} items");
}

struct Counts(u32);

impl RateLimiter<u32> for Counts {
    fn delay(&mut self, _: &u32, _: u32, _: Instant) -> Duration {
        self.0 += 1;
        self.0 * MS
    }

    fn forget(&mut self, _: &u32) {
        self.0 = 0;
    }
}

#[test]
fn expired_item_is_forgotten_before_its_next_delay() {
    let clock = ManualClock::new();
    let mut limiter = ItemRateLimiter::new(Counts(0), KeepFailures::For(SECOND));
    assert_eq!([limiter.when(&1, clock.now()), limiter.when(&1, clock.now())], [MS, 2 * MS]);
    clock.advance(SECOND + 2 * MS);
    assert_eq!(limiter.when(&1, clock.now()), MS);
}

#[test]
fn bucket_is_full_at_its_first_use() {
    let start = ManualClock::new().now();
    let mut bucket = TokenBucket::full(1.0, 2);
    let late = start + 3600 * SECOND;
    assert_eq!((bucket.tokens(late), bucket.tokens(late + SECOND)), (2, 2));
    assert!(bucket.try_accept(late));
    assert_eq!((bucket.tokens(late + SECOND), bucket.tokens(late + 2 * SECOND)), (1, 2));
    assert_eq!(TokenBucket::full(f64::INFINITY, 0).tokens(late), u32::MAX);
    let mut spent = TokenBucket::full(1.0, 0);
    assert_eq!((spent.tokens(late), spent.reserve(late)), (0, Duration::MAX));
    let mut owing = TokenBucket::full(1.0, 1);
    (0..5).for_each(|_| _ = owing.reserve(late));
    assert_eq!(owing.tokens(late), 0);
}

#[test]
fn failures_expire_after_their_time() {
    let clock = ManualClock::new();
    let exponential = ExponentialFailureRateLimiter::new(MS, SECOND);
    let mut limiter = ItemRateLimiter::new(exponential, KeepFailures::For(SECOND));
    for item in 0..1000 {
        limiter.when(&item, clock.now());
    }
    // Failures expire a fixed time after the end of the item's last delay.
    clock.advance(SECOND + MS - NANO);
    assert_eq!(limiter.num_requeues(&7, clock.now()), 1);
    clock.advance(NANO);
    assert_eq!((limiter.num_requeues(&7, clock.now()), limiter.when(&7, clock.now())), (0, MS));
    for item in 1000..3000 {
        limiter.when(&item, clock.now());
    }
    assert!(limiter.len() <= 2048, "expired items are removed: {}", limiter.len());
}

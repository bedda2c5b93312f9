//! Asking for less at once while the server has no room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Flow;

/// How many requests of a client are under way at once: as many as come, until the server's priority and fairness refuses one. Then
/// half of those that were; with each that it serves a little more; and again as many as come once it has refused none for a minute.
///
/// Those that wait are served in their order. One refusal stands for all requests that were under way with it.
#[derive(Debug, Default)]
pub(crate) struct Seats(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    taken: usize,
    limit: Option<Limit>,
    waiting: VecDeque<oneshot::Sender<Seat>>,
    /// How often there were fewer of a sudden.
    cuts: u64,
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    /// At least 1.
    seats: f64,
    /// When the server last refused a request.
    since: Instant,
}

/// So long after its last refusal a server counts as one with room.
const MEMORY: Duration = Duration::from_secs(60);

impl Seats {
    /// Waits for a seat, first come, first served. Nothing is lost if that is given up.
    pub(crate) async fn take(self: &Arc<Self>) -> Seat {
        let waiting = {
            let mut state = self.lock();
            if state.waiting.is_empty() && state.has_room() {
                return self.seat(&mut state);
            }
            let (giver, taker) = oneshot::channel();
            state.waiting.push_back(giver);
            taker
        };
        // The giver goes with these seats alone.
        waiting.await.unwrap_or_else(|_| self.seat(&mut self.lock()))
    }

    fn seat(self: &Arc<Self>, state: &mut State) -> Seat {
        state.taken += 1;
        Seat { seats: self.clone(), cuts: state.cuts, is_refused: None }
    }

    /// Gives those who wait what there is.
    fn hand_out(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut given = Vec::new();
        while !state.waiting.is_empty()
            && state.has_room()
            && let Some(giver) = state.waiting.pop_front()
        {
            if !giver.is_closed() {
                given.push((giver, self.seat(&mut state)));
            }
        }
        drop(state);
        for (giver, seat) in given {
            // Who does not wait any more drops it, and so gives it back.
            drop(giver.send(seat));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&mut self) -> bool {
        self.limit = self.limit.filter(|limit| limit.since.elapsed() < MEMORY);
        self.limit.is_none_or(|limit| self.taken < limit.seats as usize)
    }

    /// A request has been answered that took its seat after so many cuts.
    fn answered(&mut self, is_refused: bool, cuts: u64) {
        if is_refused {
            let seats = match self.limit {
                // Of a burst that has been cut already.
                Some(limit) if cuts != self.cuts => limit.seats,
                limit => limit.map_or(f64::INFINITY, |limit| limit.seats).min(self.taken as f64) / 2.0,
            };
            self.cuts += u64::from(cuts == self.cuts);
            self.limit = Some(Limit { seats: seats.max(1.0), since: Instant::now() });
        } else if let Some(limit) = &mut self.limit {
            limit.seats += 1.0 / limit.seats;
        }
    }
}

/// The right to have a request under way, for as long as this is held.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    cuts: u64,
    /// Whether the server refused the request, if it has answered.
    is_refused: Option<bool>,
}

impl Seat {
    /// The server has answered the request, which is over.
    pub(crate) fn answered(mut self, code: StatusCode, headers: &HeaderMap) {
        self.is_refused = Some(is_refusal(code, headers));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.seats.lock();
        if let Some(is_refused) = self.is_refused {
            state.answered(is_refused, self.cuts);
        }
        state.taken -= 1;
        self.seats.hand_out(state);
    }
}

/// Whether priority and fairness turned the request away. It does so in a word to humans; what else answers 429, such as an eviction that a
/// budget forbids, sends a status.
fn is_refusal(code: StatusCode, headers: &HeaderMap) -> bool {
    let is_status = headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/"));
    code == StatusCode::TOO_MANY_REQUESTS && !is_status && Flow::of(headers).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal() -> HeaderMap {
        let uid = "2b1c".parse().unwrap();
        HeaderMap::from_iter([(http::HeaderName::from_static("x-kubernetes-pf-flowschema-uid"), uid)])
    }

    /// How many seats can be taken at once, of many.
    async fn room(seats: &Arc<Seats>) -> usize {
        let mut taken = Vec::new();
        while taken.len() < 100
            && let Ok(seat) = tokio::time::timeout(Duration::ZERO, seats.take()).await
        {
            taken.push(seat);
        }
        taken.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_halves_what_was_under_way_and_all_of_a_burst_count_as_one() {
        let seats = Arc::new(Seats::default());
        let mut burst = Vec::new();
        for _ in 0..40 {
            burst.push(seats.take().await);
        }
        burst.into_iter().for_each(|seat| seat.answered(StatusCode::TOO_MANY_REQUESTS, &refusal()));
        assert_eq!(room(&seats).await, 20);
        seats.take().await.answered(StatusCode::TOO_MANY_REQUESTS, &refusal());
        assert_eq!(room(&seats).await, 1, "one was under way, and one there always is");
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_makes_room_and_a_minute_without_a_refusal_all() {
        let seats = Arc::new(Seats::default());
        let both = (seats.take().await, seats.take().await);
        both.0.answered(StatusCode::TOO_MANY_REQUESTS, &refusal());
        drop(both.1);
        let mut rooms = Vec::new();
        for _ in 0..4 {
            rooms.push(room(&seats).await);
            seats.take().await.answered(StatusCode::OK, &HeaderMap::new());
        }
        assert_eq!(rooms, [1, 2, 2, 2], "1, then a half more, then 0.4, then 0.35");
        assert_eq!(room(&seats).await, 3);
        tokio::time::advance(MEMORY).await;
        assert_eq!(room(&seats).await, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_served_in_order_and_who_gave_up_holds_up_nobody() {
        let seats = Arc::new(Seats::default());
        seats.take().await.answered(StatusCode::TOO_MANY_REQUESTS, &refusal());
        let first = seats.take().await;
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(seats.take())).collect();
        for waiting in &mut waiting {
            assert!(tokio::time::timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
        }
        drop(waiting.remove(0));
        drop(first);
        for _ in 0..3 {
            let mut next = waiting.remove(0);
            let seat = tokio::time::timeout(Duration::ZERO, next.as_mut()).await.expect("it is its turn");
            if let Some(after) = waiting.first_mut() {
                assert!(tokio::time::timeout(Duration::ZERO, after.as_mut()).await.is_err(), "one at a time");
            }
            drop(seat);
        }
    }

    #[test]
    fn only_priority_and_fairness_has_the_client_ask_for_less() {
        let with = |name: &'static str, value: &str| {
            let mut headers = refusal();
            headers.insert(name, value.parse().unwrap());
            headers
        };
        for (code, headers, expected) in [
            (429, refusal(), true),
            (429, with("content-type", "text/plain; charset=utf-8"), true),
            (429, with("content-type", "application/json"), false),
            (429, HeaderMap::new(), false),
            (200, refusal(), false),
            (503, refusal(), false),
        ] {
            assert_eq!(is_refusal(StatusCode::from_u16(code).unwrap(), &headers), expected, "{code} {headers:?}");
        }
    }
}

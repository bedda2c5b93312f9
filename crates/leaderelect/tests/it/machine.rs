//! Tests of `Machine::step` with sequences of signals that rarely occur in a simulation.

mod versions;

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::__private::machine::{Effect, Failure, Hint, Instruction, LockRequest, Machine, Signal};
use pintle_leaderelect::{
    EndReason, LeaderElectionConfig, LeaderElectionRecord, LockState, Now, TimePrecision, Version,
};

fn at(seconds: u64, wall: i64) -> Now {
    let monotonic = Duration::from_secs(seconds);
    Now { boot: monotonic, monotonic, wall: Timestamp::from_second(1_800_000_000 + wall).unwrap() }
}

fn sent(instructions: &[Instruction]) -> LockRequest {
    let requests = instructions.iter().filter_map(|instruction| match instruction {
        Instruction::Send { request, .. } => Some(request.clone()),
        _ => None,
    });
    let [request] = &requests.collect::<Vec<_>>()[..] else { panic!("not one request in {instructions:?}") };
    request.clone()
}

fn wake(machine: &Machine) -> Option<Duration> {
    machine.wake_at().map(|deadline| deadline.monotonic)
}

fn stored(record: &LeaderElectionRecord) -> Signal {
    let version = Version { uid: "uid".into(), resource_version: "1".into() };
    Signal::Read(Ok(Some(LockState::new(version, record.clone()))))
}

fn written() -> Signal {
    Signal::Written(Ok(Version { uid: "uid".into(), resource_version: "1".into() }))
}

#[test]
fn write_in_doubt_is_not_confused_with_older_record() {
    for precision in [TimePrecision::Micros, TimePrecision::Seconds] {
        let mut machine = Machine::new(
            LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() },
            precision,
            at(0, 100),
        );
        assert_eq!(sent(&machine.step(Signal::Tick, at(0, 100))), LockRequest::Read);
        let LockRequest::Create(first) = sent(&machine.step(Signal::Read(Ok(None)), at(0, 100))) else { panic!() };
        assert!(matches!(machine.step(written(), at(0, 100))[..], [.., Instruction::StartLeading { .. }]));
        assert!(matches!(sent(&machine.step(Signal::Tick, at(2, 102))), LockRequest::Update { .. }));
        machine.step(Signal::Written(Err(Failure::unknown())), at(5, 105));
        machine.step(Signal::Tick, at(10, 110));
        machine.step(Signal::WorkEnded, at(10, 110));
        machine.step(Signal::Read(Err(Failure::unknown())), at(12, 112));
        // The `Machine` acquires the lock again, because the stored record belongs to a lost term. The takeover has the
        // same wall-clock second as the first write, because the time of day was set back.
        assert_eq!(sent(&machine.step(Signal::Tick, at(20, 100))), LockRequest::Read);
        let LockRequest::Update { record, .. } = sent(&machine.step(stored(&first), at(20, 100))) else { panic!() };
        assert_ne!(record, first);
        assert!(record.renew_time > first.renew_time);
        machine.step(Signal::Written(Err(Failure::unknown())), at(21, 101));
        assert_eq!(sent(&machine.step(Signal::Tick, at(26, 106))), LockRequest::Read);
        // The lock still contains the old record, so the write was not executed and has not begun a term.
        let instructions = machine.step(stored(&first), at(26, 106));
        assert!(matches!(sent(&instructions), LockRequest::Update { .. }), "{instructions:?}");
        assert_eq!(instructions.len(), 1, "{instructions:?}");
    }
}

#[test]
fn renewals_within_a_second_do_not_extend_a_term() {
    // Candidates of client-go do not notice a second renewal in the same second, so it must not extend the term.
    let millis = Duration::from_millis;
    let config = LeaderElectionConfig {
        identity: "me".into(),
        lease_duration: millis(3_000),
        renew_deadline: millis(2_000),
        retry_period: millis(300),
        ..LeaderElectionConfig::default()
    };
    let now = |time: u64| {
        let wall = Timestamp::from_millisecond(1_800_000_000_000 + time as i64).unwrap();
        Now { boot: millis(time), monotonic: millis(time), wall }
    };
    let mut machine = Machine::new(config, TimePrecision::Micros, now(0));
    machine.step(Signal::Tick, now(0));
    machine.step(Signal::Read(Ok(None)), now(0));
    machine.step(written(), now(0));
    let mut extended = Vec::new();
    for time in (300..=2_400).step_by(300) {
        assert!(matches!(sent(&machine.step(Signal::Tick, now(time))), LockRequest::Update { .. }));
        let instructions = machine.step(written(), now(time));
        extended.extend(
            instructions.iter().any(|instruction| matches!(instruction, Instruction::Extend(_))).then_some(time),
        );
    }
    assert_eq!(extended, [1_200, 2_100]);
}

#[test]
fn renewals_are_batched_only_if_over_a_second_apart() {
    let millis = Duration::from_millis;
    let now = |time: u64| {
        let wall = Timestamp::from_millisecond(1_800_000_000_000 + time as i64).unwrap();
        Now { boot: millis(time), monotonic: millis(time), wall }
    };
    // Each renewal is sent 50 ms late. Rounding the time of the next renewal down to a multiple of the grain removes
    // this delay.
    for (retry, next) in [(2_000, 4_000), (1_400, 2_800), (1_300, 2_650), (1_000, 2_050)] {
        let retry_period = millis(retry);
        let config = LeaderElectionConfig { identity: "me".into(), retry_period, ..LeaderElectionConfig::default() };
        let mut machine = Machine::new(config, TimePrecision::Micros, now(0));
        machine.gather_renewals();
        machine.step(Signal::Tick, now(0));
        machine.step(Signal::Read(Ok(None)), now(0));
        machine.step(written(), now(0));
        assert_eq!(wake(&machine), Some(retry_period));
        let late = now(retry + 50);
        assert!(matches!(sent(&machine.step(Signal::Tick, late)), LockRequest::Update { .. }));
        machine.step(written(), late);
        assert_eq!(wake(&machine), Some(millis(next)));
    }
}

/// Returns a candidate that has just read a record with the given lease duration.
fn candidate(seed: u64, lease_duration_seconds: i32) -> Machine {
    let mut config = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
    config.seed = Some(seed);
    let mut machine = Machine::new(config, TimePrecision::Micros, at(0, 0));
    machine.step(Signal::Watch(Hint::Up), at(0, 0));
    let held = LeaderElectionRecord {
        holder_identity: "other".into(),
        lease_duration_seconds,
        ..LeaderElectionRecord::default()
    };
    machine.step(stored(&held), at(0, 0));
    machine
}

#[test]
fn candidates_spread_reads_after_watches_break_together() {
    let looks: HashSet<Duration> = (0..20)
        .map(|seed| {
            let mut machine = candidate(seed, 15);
            machine.step(Signal::Watch(Hint::Down), at(1, 1));
            machine.wake_at().unwrap().monotonic
        })
        .collect();
    assert_eq!(looks.len(), 20);
    let (retry, longest) = (Duration::from_secs(2), Duration::from_millis(4_400));
    let after = |look: &Duration| *look - Duration::from_secs(1);
    assert!(looks.iter().map(after).all(|pause| pause >= retry && pause <= longest), "{looks:?}");
}

#[test]
fn candidates_spread_reads_when_a_record_expires() {
    let looks = (0..100).map(|seed| candidate(seed, 5).wake_at().unwrap().monotonic - Duration::from_secs(5));
    let mut looks: Vec<_> = looks.collect();
    looks.sort();
    assert!(*looks.last().unwrap() <= Duration::from_millis(120), "{looks:?}");
    // The first candidate that reads the lock acquires it. Candidates that would read the lock more than 10 ms later
    // observe this write, and need no read.
    let early = looks.iter().filter(|look| **look <= looks[0] + Duration::from_millis(10)).count();
    assert!(early <= 20, "{early} of a hundred: {looks:?}");
}

#[test]
fn excessive_retry_after_is_ignored() {
    for (retry_after, given) in [(10, 10..=10), (60, 15..=15), (365 * 24 * 3600, 15..=15), (1, 2..=5)] {
        let mut machine = Machine::new(
            LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() },
            TimePrecision::Micros,
            at(0, 0),
        );
        assert_eq!(sent(&machine.step(Signal::Tick, at(0, 0))), LockRequest::Read);
        let failure = Failure { effect: Effect::None, retry_after: Some(Duration::from_secs(retry_after)) };
        machine.step(Signal::Read(Err(failure)), at(0, 0));
        let pause = machine.wake_at().unwrap().monotonic;
        assert!(given.contains(&pause.as_secs()), "the server requested {retry_after} s, the pause is {pause:?}");
    }
}

/// The client may be user code, so `retry_after` can be any duration.
#[test]
fn longest_retry_after_does_not_overflow_the_clock() {
    let failure = || Failure { effect: Effect::None, retry_after: Some(Duration::MAX) };
    let config = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
    let mut machine = Machine::new(config, TimePrecision::Micros, at(1, 1));
    machine.step(Signal::Tick, at(1, 1));
    machine.step(Signal::Read(Ok(None)), at(1, 1));
    machine.step(written(), at(1, 1));
    assert!(matches!(sent(&machine.step(Signal::Tick, at(3, 3))), LockRequest::Update { .. }));
    machine.step(Signal::Written(Err(failure())), at(3, 3));
    assert_eq!(wake(&machine), Some(Duration::from_secs(5)), "the renewal is retried after the usual pause");
    assert_eq!(sent(&machine.step(Signal::WorkEnded, at(4, 4))), LockRequest::Read);
    machine.step(Signal::Read(Err(failure())), at(4, 4));
    assert_eq!(wake(&machine), Some(Duration::from_secs(14)), "the end of the release");
}

fn held(version: u64, by: &str) -> LockState {
    let version = Version { uid: "uid".into(), resource_version: version.to_string() };
    let record = LeaderElectionRecord {
        holder_identity: by.into(),
        lease_duration_seconds: 15,
        ..LeaderElectionRecord::default()
    };
    LockState::new(version, record)
}

fn watching() -> Machine {
    let mut config = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
    config.seed = Some(7);
    let mut machine = Machine::new(config, TimePrecision::Micros, at(0, 0));
    machine.step(Signal::Watch(Hint::Up), at(0, 0));
    machine.step(Signal::Tick, at(0, 0));
    machine
}

#[test]
fn lagging_watch_does_not_delay_takeover() {
    let mut machine = watching();
    let leaders = machine.step(Signal::Read(Ok(Some(held(100, "dead")))), at(0, 0));
    assert_eq!(leaders, [Instruction::NewLeader("dead".into())]);
    for second in 1..15 {
        let old = held(50 + second, ["one", "other"][second as usize % 2]);
        let instructions = machine.step(Signal::Watch(Hint::Changed(old)), at(second, 0));
        match second {
            8 => {
                assert_eq!(sent(&instructions), LockRequest::Read);
                assert_eq!(machine.step(Signal::Read(Ok(Some(held(100, "dead")))), at(second, 0)), []);
            }
            _ => assert_eq!(instructions, [], "at {second}"),
        }
    }
    assert_eq!(machine.leader(), Some("dead"));
    assert_eq!(sent(&machine.step(Signal::Tick, at(16, 16))), LockRequest::Read);
    let LockRequest::Update { record, .. } = sent(&machine.step(Signal::Read(Ok(Some(held(100, "dead")))), at(16, 16)))
    else {
        panic!()
    };
    assert_eq!(record.holder_identity, "me");
}

#[test]
fn watch_event_with_unordered_version_causes_a_read() {
    let opaque = |text: &str| {
        let mut state = held(0, "other");
        state.version.resource_version = text.into();
        state
    };
    let mut machine = watching();
    machine.step(Signal::Read(Ok(Some(opaque("x")))), at(0, 0));
    machine.step(Signal::Watch(Hint::Changed(opaque("y"))), at(3, 3));
    assert_eq!(sent(&machine.step(Signal::Tick, at(4, 4))), LockRequest::Read);
}

#[test]
fn planned_takeover_is_dropped_when_the_lock_is_held() {
    for (taken, expected) in [(false, true), (true, false)] {
        let mut machine = watching();
        machine.step(Signal::Read(Ok(Some(held(1, "other")))), at(0, 0));
        assert_eq!(
            machine.step(Signal::Watch(Hint::Changed(held(2, ""))), at(3, 3)),
            [Instruction::NewLeader("".into())]
        );
        if taken {
            machine.step(Signal::Watch(Hint::Changed(held(3, "third"))), at(3, 3));
        }
        let base = held(2, "").version;
        let instructions = machine.step(Signal::Tick, at(4, 4));
        let takes = instructions.iter().any(|instruction| {
            matches!(instruction, Instruction::Send { request: LockRequest::Update { base: found, .. }, .. } if *found == base)
        });
        assert_eq!(takes, expected, "{instructions:?}");
    }
}

#[test]
fn whole_second_renew_time_stays_behind_the_clock() {
    let millis = Duration::from_millis;
    let config = LeaderElectionConfig {
        identity: "me".into(),
        lease_duration: millis(5_000),
        renew_deadline: millis(3_000),
        retry_period: millis(200),
        ..LeaderElectionConfig::default()
    };
    let now = |time: u64| {
        let wall = Timestamp::from_millisecond(1_800_000_000_000 + time as i64).unwrap();
        Now { boot: millis(time), monotonic: millis(time), wall }
    };
    let mut machine = Machine::new(config, TimePrecision::Seconds, now(0));
    machine.step(Signal::Tick, now(0));
    machine.step(Signal::Read(Ok(None)), now(0));
    machine.step(written(), now(0));
    let mut renewals = 0;
    for time in (0..=60_000).step_by(100) {
        for instruction in machine.step(Signal::Tick, now(time)) {
            assert!(!matches!(instruction, Instruction::StopLeading(_)), "at {time}");
            let Instruction::Send { request: LockRequest::Update { record, .. }, .. } = instruction else { continue };
            let ahead = record.renew_time.unwrap().0.as_millisecond() - now(time).wall.as_millisecond();
            assert!(ahead <= 1_000, "{ahead} ms ahead after {time} ms");
            machine.step(written(), now(time));
            renewals += 1;
        }
    }
    assert!(renewals >= 50, "{renewals}");
}

/// Returns the second in which the `Machine` creates the lock if no read finds a lock.
fn created(machine: &mut Machine, first: u64) -> Option<u64> {
    (first..60).find(|second| {
        let now = at(*second, *second as i64);
        let reads = !machine.step(Signal::Tick, now).is_empty();
        let instructions = if reads { machine.step(Signal::Read(Ok(None)), now) } else { Vec::new() };
        let is_create = |instruction: &Instruction| {
            matches!(instruction, Instruction::Send { request: LockRequest::Create(_), .. })
        };
        instructions.iter().any(is_create)
    })
}

/// The candidate waits, because another holder may have acquired the lock after the candidate's last read.
#[test]
fn deleted_lock_counts_as_held_even_if_seen_free() {
    let config = LeaderElectionConfig { identity: "me".into(), seed: Some(7), ..LeaderElectionConfig::default() };
    let mut machine = Machine::new(config, TimePrecision::Micros, at(0, 0));
    machine.step(Signal::Tick, at(0, 0));
    let mut free = held(1, "");
    free.record.lease_duration_seconds = 1;
    assert!(matches!(sent(&machine.step(Signal::Read(Ok(Some(free))), at(0, 0))), LockRequest::Update { .. }));
    machine.step(Signal::Written(Err(Failure { effect: Effect::Conflict, retry_after: None })), at(0, 0));
    let created = created(&mut machine, 5);
    assert!(created.is_some_and(|second| (20..=25).contains(&second)), "{created:?}");
}

/// Between the sending and the execution of a create request, another holder's lock was created and deleted. The other
/// holder may not have noticed the deletion.
#[test]
fn lock_created_after_foreign_deletion_counts_as_foreign() {
    for (answered, told_before) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut machine = watching();
        let LockRequest::Create(record) = sent(&machine.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
        machine.step(Signal::Watch(Hint::Changed(held(1, "other"))), at(1, 1));
        machine.step(Signal::Watch(Hint::Deleted { uid: "uid".into() }), at(2, 2));
        let created = LockState::new(Version { uid: "late".into(), resource_version: "9".into() }, record);
        if told_before {
            machine.step(Signal::Watch(Hint::Changed(created.clone())), at(3, 3));
        }
        let answer = if answered { Ok(created.version.clone()) } else { Err(Failure::unknown()) };
        assert_eq!(sent(&machine.step(Signal::Written(answer), at(3, 3))), LockRequest::Read);
        let instructions = machine.step(Signal::Read(Ok(Some(created.clone()))), at(3, 3));
        assert!(!machine.leads(), "{instructions:?}");
        assert!(
            !instructions.iter().any(|instruction| matches!(instruction, Instruction::Send { .. })),
            "{instructions:?}"
        );
        // The `Machine` acquires the lock at the time when the other leader must have stopped working.
        assert_eq!(sent(&machine.step(Signal::Tick, at(24, 24))), LockRequest::Read);
        let instructions = machine.step(Signal::Read(Ok(Some(created))), at(24, 24));
        assert!(matches!(sent(&instructions), LockRequest::Update { .. }));
    }
}

/// The leader of the second lock may not have noticed the deletion of its lock either.
#[test]
fn lock_seen_during_drain_then_deleted_counts_as_held() {
    for lost in [true, false] {
        let mut machine = renewing();
        machine.step(written(), at(2, 2));
        if lost {
            drop(machine.step(Signal::Watch(Hint::Deleted { uid: "uid".into() }), at(3, 3)));
        } else {
            drop(machine.step(Signal::WorkEnded, at(3, 3)));
        }
        let next =
            LockState { version: Version { uid: "next".into(), resource_version: "9".into() }, ..held(9, "other") };
        let instructions = machine.step(Signal::Watch(Hint::Changed(next)), at(10, 10));
        assert_eq!(instructions, [Instruction::NewLeader("other".into())]);
        if lost {
            assert_eq!(sent(&machine.step(Signal::WorkEnded, at(12, 12))), LockRequest::Read);
        } else {
            machine.step(Signal::Read(Err(Failure::unknown())), at(12, 12)).clear();
        }
        let instructions = machine.step(Signal::Read(Ok(None)), at(12, 12));
        assert_eq!(instructions, [Instruction::NewLeader(String::new())]);
        let created = created(&mut machine, 13);
        assert!(created.is_some_and(|second| (27..=30).contains(&second)), "{created:?}");
    }
}

/// The other contender's lock was created before the leader noticed the deletion of its own lock.
#[test]
fn lock_watched_before_term_loss_then_deleted_is_held() {
    let mut machine = renewing();
    machine.step(written(), at(2, 2));
    assert_eq!(sent(&machine.step(Signal::Watch(Hint::MaybeChanged), at(3, 3))), LockRequest::Read);
    let next = LockState { version: Version { uid: "next".into(), resource_version: "9".into() }, ..held(9, "other") };
    machine.step(Signal::Watch(Hint::Changed(next)), at(3, 3));
    let instructions = machine.step(Signal::Read(Ok(None)), at(4, 4));
    assert!(instructions.contains(&Instruction::StopLeading(EndReason::Deleted)), "{instructions:?}");
    assert_eq!(sent(&machine.step(Signal::WorkEnded, at(12, 12))), LockRequest::Read);
    machine.step(Signal::Read(Ok(None)), at(12, 12));
    let created = created(&mut machine, 13);
    assert!(created.is_some_and(|second| (27..=30).contains(&second)), "{created:?}");
}

#[test]
fn late_watch_event_of_own_term_causes_no_wait() {
    let mut machine = watching();
    let LockRequest::Create(record) = sent(&machine.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
    machine.step(written(), at(0, 0));
    machine.step(Signal::Watch(Hint::Deleted { uid: "uid".into() }), at(3, 3));
    assert!(!machine.leads());
    let own = LockState::new(Version { uid: "uid".into(), resource_version: "9".into() }, record);
    assert_eq!(machine.step(Signal::Watch(Hint::Changed(own)), at(4, 4)), []);
    assert_eq!(sent(&machine.step(Signal::WorkEnded, at(5, 5))), LockRequest::Read);
    let instructions = machine.step(Signal::Read(Ok(None)), at(5, 5));
    assert!(matches!(sent(&instructions), LockRequest::Create(_)), "{instructions:?}");
}

/// A read finds no lock, but the watch reports a lock. The `Machine` must wait for the reported holder if the event may
/// be newer than the read.
#[test]
fn read_older_than_watch_event_does_not_discard_it() {
    let mut machine = watching();
    machine.step(Signal::Watch(Hint::Changed(held(1, "other"))), at(1, 1));
    assert_eq!(machine.step(Signal::Read(Ok(None)), at(3, 3)), []);
    assert_eq!(machine.leader(), Some("other"));
    let again = wake(&machine).unwrap();
    assert!((5_000..=7_400).contains(&again.as_millis()), "{again:?}");
    assert_eq!(sent(&machine.step(Signal::Tick, at(8, 8))), LockRequest::Read);
    // The read was sent before the event, so the `Machine` measures its wait from the time of the event.
    let mut still = machine.clone();
    assert_eq!(still.step(Signal::Read(Ok(Some(held(1, "other")))), at(8, 8)), []);
    let expired = wake(&still).unwrap();
    assert!((16_000..=16_120).contains(&expired.as_millis()), "{expired:?}");
    // The read was sent after the event, so the `Machine` measures its wait from this read, which finds that the lock
    // was deleted.
    assert_eq!(machine.step(Signal::Read(Ok(None)), at(8, 8)), [Instruction::NewLeader(String::new())]);
    let created = created(&mut machine, 9);
    assert!(created.is_some_and(|second| (23..=26).contains(&second)), "{created:?}");
}

#[test]
fn candidate_keeps_watch_event_received_during_a_request() {
    let mut machine = watching();
    let instructions = machine.step(Signal::Watch(Hint::Changed(held(2, ""))), at(1, 1));
    assert_eq!(instructions, []);
    let instructions = machine.step(Signal::Read(Ok(Some(held(1, "other")))), at(2, 2));
    assert_eq!(instructions.len(), 1, "{instructions:?}");
    let LockRequest::Update { base, .. } = sent(&instructions) else { panic!("{instructions:?}") };
    assert_eq!(base, held(2, "").version);

    for hint in [Hint::Deleted { uid: "uid".into() }, Hint::MaybeChanged] {
        let mut machine = watching();
        machine.step(Signal::Watch(hint.clone()), at(1, 1));
        let instructions = machine.step(Signal::Read(Ok(Some(held(1, "other")))), at(2, 2));
        assert_eq!(sent(&instructions), LockRequest::Read, "{hint:?}");
        machine.step(Signal::Read(Ok(Some(held(1, "other")))), at(2, 2));
        assert!((8..=10).contains(&wake(&machine).unwrap().as_secs()), "three or four retry periods");
    }
}

/// Returns a `Machine` that leads since second 0, and whose renewal at second 2 is in flight.
fn renewing() -> Machine {
    let mut machine = watching();
    machine.step(Signal::Read(Ok(None)), at(0, 0));
    machine.step(written(), at(0, 0));
    assert!(matches!(sent(&machine.step(Signal::Tick, at(2, 2))), LockRequest::Update { .. }));
    machine
}

#[test]
fn leader_keeps_watch_event_received_during_a_renewal() {
    for hint in [Hint::MaybeChanged, Hint::Changed(held(7, "other"))] {
        let mut machine = renewing();
        machine.step(Signal::Watch(hint.clone()), at(2, 2));
        let instructions = machine.step(written(), at(3, 3));
        assert_eq!(sent(&instructions), LockRequest::Read, "{hint:?}");
    }
}

#[test]
fn leader_backs_off_when_others_write_the_lock() {
    let mut machine = watching();
    let LockRequest::Create(record) = sent(&machine.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
    machine.step(written(), at(0, 0));
    let mut stored = LockState { record, ..held(1, "") };
    let (mut requests, mut version) = (0, 1);
    for millis in 0..10_000 {
        let time = Duration::from_millis(millis);
        let now = Now { boot: time, monotonic: time, wall: at(0, 0).wall + time };
        let mut instructions = machine.step(Signal::Watch(Hint::MaybeChanged), now);
        while let [Instruction::Send { request, .. }] = &instructions[..] {
            requests += 1;
            let answer = match request.clone() {
                LockRequest::Read => Signal::Read(Ok(Some(stored.clone()))),
                LockRequest::Update { base, record } if base == stored.version => {
                    version += 2;
                    stored = LockState { record, ..held(version, "") };
                    Signal::Written(Ok(held(version - 1, "").version))
                }
                other => panic!("{other:?}"),
            };
            instructions = machine.step(answer, now);
            instructions.retain(|instruction| !matches!(instruction, Instruction::Extend(_)));
        }
        assert_eq!(instructions, [], "at {millis} ms");
    }
    assert!(machine.leads() && requests <= 250, "{requests} requests in ten seconds");
}

/// The control plane may have assigned the lock to another candidate during the read.
#[test]
fn assignment_that_expires_during_a_read_is_not_taken() {
    let config = LeaderElectionConfig { identity: "me".into(), coordinated: true, ..LeaderElectionConfig::default() };
    let given = LeaderElectionRecord { holder_identity: "me".into(), lease_duration_seconds: 10, ..Default::default() };
    for (answered_at, taken) in [(9, true), (10, false)] {
        let mut machine = Machine::new(config.clone(), TimePrecision::Micros, at(0, 0));
        machine.step(Signal::Tick, at(0, 0));
        assert!(matches!(sent(&machine.step(stored(&given), at(0, 0))), LockRequest::Update { .. }));
        let refused = Failure { effect: Effect::None, retry_after: Some(Duration::from_secs(3)) };
        machine.step(Signal::Written(Err(refused)), at(0, 0));
        assert_eq!(sent(&machine.step(Signal::Tick, at(5, 5))), LockRequest::Read);
        let instructions = machine.step(stored(&given), at(answered_at, 5));
        assert_eq!(!instructions.is_empty(), taken, "{instructions:?}");
    }
}

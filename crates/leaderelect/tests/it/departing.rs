//! Tests of requests that are queued before they are sent.

use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::__private::machine::{Effect, Failure, Hint, Instruction, LockRequest, Machine, Signal};
use pintle_leaderelect::{
    Deadline, LeaderElectionConfig, LeaderElectionRecord, LockState, Now, TimePrecision, Version,
};
use pintle_meta::MicroTime;

fn at(seconds: u64) -> Now {
    let monotonic = Duration::from_secs(seconds);
    Now { boot: monotonic, monotonic, wall: Timestamp::from_second(1_800_000_000 + seconds as i64).unwrap() }
}

fn time(seconds: u64) -> Option<MicroTime> {
    Some(MicroTime(at(seconds).wall))
}

fn version(number: u64) -> Version {
    Version { uid: "uid".into(), resource_version: number.to_string() }
}

fn config() -> LeaderElectionConfig {
    LeaderElectionConfig { identity: "me".into(), seed: Some(7), ..LeaderElectionConfig::default() }
}

fn machine(config: LeaderElectionConfig) -> Machine {
    let mut machine = Machine::new(config, TimePrecision::Micros, at(0));
    machine.step(Signal::Watch(Hint::Up), at(0));
    machine.step(Signal::Tick, at(0));
    machine
}

/// Returns a `Machine` that leads since second 0 with version 1 of the lock, and whose renewal at second 2 is queued.
fn renewing() -> Machine {
    let mut machine = machine(config());
    machine.step(Signal::Read(Ok(None)), at(0));
    machine.step(Signal::Written(Ok(version(1))), at(0));
    machine.step(Signal::Tick, at(2));
    machine
}

fn update(departed: Option<(LockRequest, Duration)>) -> (Version, LeaderElectionRecord, Duration) {
    let Some((LockRequest::Update { base, record }, timeout)) = departed else { panic!("{departed:?}") };
    (base, record, timeout)
}

const TIMEOUT: Duration = Duration::from_nanos(3_333_333_333);

#[test]
fn queued_renewal_is_stamped_when_sent() {
    let mut machine = renewing();
    let (base, record, timeout) = update(machine.depart(at(5)));
    assert_eq!((base, record.renew_time, timeout), (version(1), time(5), TIMEOUT));
    let deadline = Deadline::after(at(5), Duration::from_secs(10));
    assert_eq!(machine.step(Signal::Written(Ok(version(2))), at(6)), [Instruction::Extend(deadline)]);
    // The next renewal is due one retry period after the sending time of this renewal.
    assert_eq!(machine.wake_at().unwrap().monotonic, Duration::from_secs(7));
}

#[test]
fn request_sent_at_once_is_unchanged() {
    let mut machine = renewing();
    let (base, record, timeout) = update(machine.depart(at(2)));
    assert_eq!((base, record.renew_time, timeout), (version(1), time(2), TIMEOUT));
}

#[test]
fn renewal_sent_late_has_the_rest_of_the_term() {
    let mut machine = renewing();
    let (_, _, timeout) = update(machine.depart(at(8)));
    assert_eq!(timeout, Duration::from_secs(2));
}

#[test]
fn renewal_queued_past_its_term_is_not_sent() {
    let mut machine = renewing();
    assert_eq!(machine.clone().depart(at(10)), None, "the deadline has passed");
    assert!(matches!(machine.step(Signal::Tick, at(10))[..], [Instruction::StopLeading(_)]));
    machine.step(Signal::WorkEnded, at(10));
    assert_eq!(machine.depart(at(11)), None);
    let next = machine.step(Signal::Tick, at(11));
    assert!(matches!(next[..], [Instruction::Send { request: LockRequest::Read, .. }]), "{next:?}");
}

#[test]
fn queued_renewal_yields_to_release_when_work_ends() {
    let mut machine = renewing();
    assert!(matches!(machine.step(Signal::Stop, at(3))[..], [Instruction::Drain(_)]));
    assert_eq!(machine.step(Signal::WorkEnded, at(4)), []);
    assert_eq!(machine.leave_by(at(4)), Duration::from_secs(14));
    assert_eq!(machine.depart(at(5)), None);
    let next = machine.step(Signal::Tick, at(5));
    assert!(matches!(next[..], [Instruction::Send { request: LockRequest::Read, .. }]), "{next:?}");
    assert_eq!(machine.depart(at(6)), Some((LockRequest::Read, TIMEOUT)));
    assert_eq!(machine.clone().depart(at(14)), None, "the time for the release is over");
    assert_eq!(machine.depart(at(13)), Some((LockRequest::Read, Duration::from_secs(1))));
}

#[test]
fn queued_renewal_reads_first_after_watch_reports_other_holder() {
    let mut machine = renewing();
    let other = LeaderElectionRecord { holder_identity: "other".into(), ..LeaderElectionRecord::default() };
    assert_eq!(machine.step(Signal::Watch(Hint::Changed(LockState::new(version(7), other))), at(3)), []);
    assert_eq!(machine.slow_paths(), 0);
    assert_eq!(machine.depart(at(4)), Some((LockRequest::Read, TIMEOUT)));
    assert_eq!(machine.slow_paths(), 1);
    // A queued read counts as only one slow-path renewal.
    assert_eq!(machine.depart(at(5)), Some((LockRequest::Read, TIMEOUT)));
    assert_eq!(machine.slow_paths(), 1);
}

#[test]
fn queued_read_counts_from_when_it_was_sent() {
    let mut machine = machine(config());
    let record =
        LeaderElectionRecord { holder_identity: "other".into(), lease_duration_seconds: 5, ..Default::default() };
    let found = LockState::new(version(1), record);
    machine.step(Signal::Read(Ok(Some(found.clone()))), at(0));
    let instructions = machine.step(Signal::Tick, at(6));
    assert!(matches!(instructions[..], [Instruction::Send { request: LockRequest::Read, .. }]));
    assert_eq!(machine.depart(at(9)), Some((LockRequest::Read, TIMEOUT)));
    assert_eq!(machine.leave_by(at(9)), Duration::from_secs(19));
    let taken = machine.step(Signal::Read(Ok(Some(found))), at(9));
    let [Instruction::Send { request: LockRequest::Update { base, record }, .. }] = &taken[..] else {
        panic!("{taken:?}")
    };
    assert_eq!((base, record.renew_time, record.leader_transitions), (&version(1), time(9), 1));
}

#[test]
fn lock_taken_late_has_the_actual_time() {
    let mut creating = machine(config());
    creating.step(Signal::Read(Ok(None)), at(0));
    let Some((LockRequest::Create(record), _)) = creating.depart(at(3)) else { panic!() };
    assert_eq!((record.acquire_time, record.renew_time), (time(3), time(3)));
    let began = creating.step(Signal::Written(Ok(version(1))), at(4));
    let deadline = Deadline::after(at(3), Duration::from_secs(10));
    assert!(began.iter().any(
        |instruction| matches!(instruction, Instruction::StartLeading { deadline: found, .. } if *found == deadline)
    ));

    // The control plane assigned the lock and set the acquire time.
    let mut given = machine(LeaderElectionConfig { coordinated: true, ..config() });
    let record = LeaderElectionRecord {
        holder_identity: "me".into(),
        lease_duration_seconds: 5,
        acquire_time: Some(MicroTime(Timestamp::from_second(1_700_000_000).unwrap())),
        ..LeaderElectionRecord::default()
    };
    given.step(Signal::Read(Ok(Some(LockState::new(version(1), record.clone())))), at(0));
    let (base, taken, _) = update(given.depart(at(3)));
    assert_eq!((base, taken.acquire_time, taken.renew_time), (version(1), record.acquire_time, time(3)));
}

#[test]
fn free_lock_is_read_again_after_a_foreign_write() {
    let mut machine = machine(config());
    machine.step(Signal::Read(Ok(Some(LockState::new(version(1), LeaderElectionRecord::default())))), at(0));
    let mut still = machine.clone();
    assert_eq!(update(still.depart(at(3))).0, version(1));
    machine.step(Signal::Watch(Hint::Changed(LockState::new(version(2), LeaderElectionRecord::default()))), at(2));
    assert_eq!(machine.depart(at(3)), Some((LockRequest::Read, TIMEOUT)));
}

#[test]
fn no_request_is_sent_after_a_stop() {
    let mut machine = machine(config());
    // A write that was never sent had no effect, so its result is not in doubt.
    machine.step(Signal::Read(Ok(None)), at(0));
    assert_eq!(machine.step(Signal::Stop, at(1)), []);
    assert_eq!(machine.depart(at(2)), None);
    assert_eq!(machine.step(Signal::Tick, at(2)), [Instruction::Finish]);
    assert_eq!(machine.depart(at(3)), None, "no request is queued");
}

#[test]
fn stop_first_resolves_writes_in_doubt() {
    let mut machine = machine(config());
    machine.step(Signal::Read(Ok(None)), at(0));
    machine.step(Signal::Written(Err(Failure { effect: Effect::Unknown, retry_after: None })), at(1));
    let instructions = machine.step(Signal::Tick, at(6));
    assert!(matches!(instructions[..], [Instruction::Send { request: LockRequest::Read, .. }]), "{instructions:?}");
    assert_eq!(machine.step(Signal::Stop, at(7)), []);
    assert_eq!(machine.depart(at(8)), None);
    let instructions = machine.step(Signal::Tick, at(8));
    assert!(matches!(instructions[..], [Instruction::Send { request: LockRequest::Read, .. }]), "{instructions:?}");
}

#[test]
fn leave_by_is_the_deadline_of_the_term() {
    let machine = renewing();
    assert_eq!(machine.leave_by(at(2)), Duration::from_secs(10));
    let resumed = Now { boot: Duration::from_secs(6), ..at(3) };
    assert_eq!(machine.leave_by(resumed), Duration::from_secs(7));
}

//! Tests of handing over the lock to a preferred holder, or after a stop.

use std::time::Duration;

use jiff::Timestamp;
use pintle_leaderelect::__private::machine::{Failure, Instruction, LockRequest, Machine, Preference, Signal};
use pintle_leaderelect::{
    EndReason, LeaderElectionConfig, LeaderElectionRecord, LockState, Now, TimePrecision, Version,
};
use tokio::time::Instant;

use crate::contender::{Setup, pass};
use crate::server::{holder, put, server, take_verbs};

fn at(seconds: u64) -> Now {
    let monotonic = Duration::from_secs(seconds);
    Now { boot: monotonic, monotonic, wall: Timestamp::from_second(1_800_000_000 + seconds as i64).unwrap() }
}

fn requests(instructions: &[Instruction]) -> Vec<LockRequest> {
    let sent = instructions.iter().filter_map(|instruction| match instruction {
        Instruction::Send { request, .. } => Some(request.clone()),
        _ => None,
    });
    sent.collect()
}

/// Returns a `Machine` that became the leader at second 0, and the state of its lock.
fn leader(config: LeaderElectionConfig) -> (Machine, LockState) {
    let mut machine = Machine::new(config, TimePrecision::Micros, at(0));
    machine.step(Signal::Tick, at(0));
    let instructions = machine.step(Signal::Read(Ok(None)), at(0));
    let [LockRequest::Create(record)] = &requests(&instructions)[..] else { panic!("{instructions:?}") };
    let version = Version { uid: "uid".into(), resource_version: "1".into() };
    machine.step(Signal::Written(Ok(version.clone())), at(0));
    assert!(machine.leads());
    (machine, LockState::new(version, record.clone()))
}

fn releases(instructions: &[Instruction]) -> bool {
    matches!(&requests(instructions)[..], [LockRequest::Update { record, .. }] if record.is_vacant())
}

#[test]
fn lock_given_up_for_preferred_holder_is_always_released() {
    for release_on_cancel in [true, false] {
        let config = LeaderElectionConfig { identity: "me".into(), release_on_cancel, ..Default::default() };
        let (mut machine, stored) = leader(config);
        let preference = Preference { defer: Duration::from_secs(4), yield_to: Some("other".into()) };
        let other = "other".to_owned();
        let instructions = machine.step(Signal::Prefer(preference), at(1));
        assert_eq!(instructions, [Instruction::Drain(EndReason::Preferred { other })]);
        let instructions = machine.step(Signal::WorkEnded, at(1));
        assert_eq!(requests(&instructions), [LockRequest::Read]);
        assert!(releases(&machine.step(Signal::Read(Ok(Some(stored))), at(1))), "{release_on_cancel}");
    }
}

#[test]
fn stop_during_drain_of_lost_term_releases_unexpired_lock() {
    let config = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
    let (mut machine, stored) = leader(config.clone());
    let instructions = machine.step(Signal::Tick, at(10));
    assert!(instructions.contains(&Instruction::StopLeading(EndReason::Deadline)));
    machine.step(Signal::Stop, at(10));
    let instructions = machine.step(Signal::WorkEnded, at(11));
    assert_eq!(requests(&instructions), [LockRequest::Read]);
    let instructions = machine.step(Signal::Read(Ok(Some(stored.clone()))), at(12));
    assert!(releases(&instructions), "{instructions:?}");
    let released = Version { resource_version: "2".into(), ..stored.version };
    assert_eq!(machine.step(Signal::Written(Ok(released)), at(12)).last(), Some(&Instruction::Finish));

    // The `Machine` does not release the lock after second 15, because other contenders may then acquire
    // it.
    let (mut machine, _) = leader(config.clone());
    machine.step(Signal::Tick, at(10));
    machine.step(Signal::Stop, at(10));
    machine.step(Signal::WorkEnded, at(11));
    let instructions = machine.step(Signal::Read(Err(Failure::unknown())), at(14));
    assert_eq!(instructions, [Instruction::Send { request: LockRequest::Read, timeout: Duration::from_secs(1) }]);
    assert_eq!(machine.step(Signal::Read(Err(Failure::unknown())), at(15)), [Instruction::Finish]);

    let (mut machine, stored) = leader(config);
    machine.step(Signal::Tick, at(10));
    machine.step(Signal::Stop, at(10));
    machine.step(Signal::WorkEnded, at(11));
    let record = LeaderElectionRecord { holder_identity: "other".into(), ..stored.record };
    let instructions = machine.step(Signal::Read(Ok(Some(LockState { record, ..stored }))), at(12));
    assert_eq!(requests(&instructions), []);
    assert_eq!(instructions.last(), Some(&Instruction::Finish));
}

/// The server stores the renewal of the lost term. The elector either receives the response to this
/// renewal or not.
#[test]
fn stop_during_renewal_of_lost_term_releases_afterwards() {
    let config = LeaderElectionConfig { identity: "me".into(), ..LeaderElectionConfig::default() };
    for is_known in [true, false] {
        let (mut machine, stored) = leader(config.clone());
        let instructions = machine.step(Signal::Tick, at(9));
        let [LockRequest::Update { record, .. }] = &requests(&instructions)[..] else { panic!("{instructions:?}") };
        machine.step(Signal::Tick, at(10));
        machine.step(Signal::WorkEnded, at(10));
        assert_eq!(machine.step(Signal::Stop, at(10)), []);
        let renewed = Version { resource_version: "2".into(), ..stored.version };
        let answer = if is_known { Ok(renewed.clone()) } else { Err(Failure::unknown()) };
        let instructions = machine.step(Signal::Written(answer), at(11));
        assert_eq!(requests(&instructions), [LockRequest::Read], "known: {is_known}");
        let stored = LockState::new(renewed, record.clone());
        assert!(releases(&machine.step(Signal::Read(Ok(Some(stored))), at(12))), "known: {is_known}");
        let released = Version { uid: "uid".into(), resource_version: "3".into() };
        assert_eq!(machine.step(Signal::Written(Ok(released)), at(12)).last(), Some(&Instruction::Finish));
    }
}

#[tokio::test(start_paused = true)]
async fn stop_after_a_lost_term_releases_the_lock() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(2.5).await;
    a.client.faults().cut_off();
    // The last renewal was sent at second 2.0, and the read after the end of the term receives no
    // response.
    pass(10.0).await;
    assert!(!a.status.is_leader());
    a.client.faults().heal();
    let stopped = Instant::now();
    assert_eq!(a.stop().await, Some(EndReason::Deadline));
    assert_eq!(holder(&server), "");
    assert!(stopped.elapsed() <= Duration::from_secs(5), "{:?}", stopped.elapsed());
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_release_a_lock_held_by_another() {
    let server = server();
    let a = Setup::new("a").start(&server);
    pass(2.5).await;
    put(&server, &LeaderElectionRecord { holder_identity: "b".into(), ..Default::default() });
    pass(3.0).await;
    take_verbs(&server);
    assert!(matches!(a.stop().await, Some(EndReason::TakenBy { .. })));
    assert_eq!(take_verbs(&server), [""; 0]);
    assert_eq!(holder(&server), "b");
}

//! Tests of the version that a write replaces, and of the versions that belong to a term.

use super::*;

fn version_of(uid: &str, number: u64, record: &LeaderElectionRecord) -> LockState {
    let version = Version { uid: uid.into(), resource_version: number.to_string() };
    LockState::new(version, record.clone())
}

/// Another program deletes the lock and restores it with the same record. The restored lock does not belong to any
/// elector's term.
#[test]
fn recreated_lock_with_own_record_is_not_released() {
    let mut machine = watching();
    let LockRequest::Create(record) = sent(&machine.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
    machine.step(written(), at(0, 0));
    let restored = || Signal::Read(Ok(Some(version_of("restored", 9, &record))));

    let mut released = machine.clone();
    assert_eq!(sent(&released.step(Signal::WorkEnded, at(1, 1))), LockRequest::Read);
    let instructions = released.step(restored(), at(1, 1));
    assert!(
        !instructions.iter().any(|instruction| matches!(instruction, Instruction::Send { .. })),
        "{instructions:?}"
    );

    machine.step(Signal::Tick, at(2, 2));
    machine.step(Signal::Written(Err(Failure { effect: Effect::None, retry_after: None })), at(2, 2));
    let lost = machine.step(Signal::Tick, at(10, 10));
    assert!(lost.contains(&Instruction::StopLeading(EndReason::Deadline)), "{lost:?}");
    assert_eq!(sent(&machine.step(Signal::WorkEnded, at(10, 10))), LockRequest::Read);
    machine.step(Signal::Stop, at(10, 10));
    let instructions = machine.step(stored(&record), at(10, 10));
    assert_eq!(sent(&instructions), LockRequest::Read, "the read before the release");
    assert_eq!(machine.step(restored(), at(10, 10)), [Instruction::Finish]);
}

/// Between the sending and the execution of a create request, another holder's lock was created and deleted. The other
/// holder may not have noticed the deletion.
#[test]
fn late_create_after_foreign_lock_begins_no_term() {
    for by_watch in [true, false] {
        let mut machine = watching();
        let LockRequest::Create(record) = sent(&machine.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
        machine.step(Signal::Written(Err(Failure::unknown())), at(1, 1));
        if by_watch {
            drop(machine.step(Signal::Watch(Hint::Changed(held(1, "other"))), at(2, 2)));
        } else {
            machine.step(Signal::Watch(Hint::MaybeChanged), at(2, 2));
            assert_eq!(sent(&machine.step(Signal::Tick, at(3, 3))), LockRequest::Read);
            machine.step(Signal::Read(Ok(Some(held(1, "other")))), at(3, 3));
        }
        machine.step(Signal::Watch(Hint::Deleted { uid: "uid".into() }), at(4, 4));
        assert_eq!(sent(&machine.step(Signal::Tick, at(5, 5))), LockRequest::Read);
        let instructions = machine.step(Signal::Read(Ok(Some(version_of("late", 9, &record)))), at(5, 5));
        assert!(!machine.leads(), "by watch {by_watch}: {instructions:?}");
        let sends = instructions.iter().any(|instruction| matches!(instruction, Instruction::Send { .. }));
        assert!(!sends, "by watch {by_watch}: {instructions:?}");
    }
}

/// Another program writes a label between the `Machine`'s read and its write. The watch reports the version with this
/// label before the write.
#[test]
fn write_replaces_the_version_that_the_watch_reported() {
    let mut candidate = watching();
    candidate.step(Signal::Read(Ok(Some(held(1, "dead")))), at(0, 0));
    assert_eq!(sent(&candidate.step(Signal::Tick, at(16, 16))), LockRequest::Read);
    candidate.step(Signal::Watch(Hint::Changed(held(2, "dead"))), at(16, 16));
    let takeover = sent(&candidate.step(Signal::Read(Ok(Some(held(1, "dead")))), at(16, 16)));
    let LockRequest::Update { base, .. } = takeover else { panic!("{takeover:?}") };
    assert_eq!(base, held(2, "").version);

    let mut holder = watching();
    let LockRequest::Create(record) = sent(&holder.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
    holder.step(written(), at(0, 0));
    assert_eq!(sent(&holder.step(Signal::WorkEnded, at(1, 1))), LockRequest::Read);
    holder.step(Signal::Watch(Hint::Changed(version_of("uid", 7, &record))), at(1, 1));
    let release = sent(&holder.step(Signal::Read(Ok(Some(version_of("uid", 6, &record)))), at(1, 1)));
    let LockRequest::Update { base, .. } = release else { panic!("{release:?}") };
    assert_eq!(base, held(7, "").version);
}

/// The server was restored from a backup between the last observation and the read, so the lock has a lower version. A
/// write that replaces the higher version would conflict every time.
#[test]
fn write_replaces_the_version_of_a_restored_lock() {
    let mut candidate = watching();
    candidate.step(Signal::Read(Ok(Some(held(9, "dead")))), at(0, 0));
    assert_eq!(sent(&candidate.step(Signal::Tick, at(16, 16))), LockRequest::Read);
    let takeover = sent(&candidate.step(Signal::Read(Ok(Some(held(5, "dead")))), at(16, 16)));
    let LockRequest::Update { base, .. } = takeover else { panic!("{takeover:?}") };
    assert_eq!(base, held(5, "").version);

    let mut holder = watching();
    let LockRequest::Create(record) = sent(&holder.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
    holder.step(written(), at(0, 0));
    holder.step(Signal::Watch(Hint::Changed(version_of("uid", 7, &record))), at(0, 0));
    assert_eq!(sent(&holder.step(Signal::WorkEnded, at(1, 1))), LockRequest::Read);
    let release = sent(&holder.step(Signal::Read(Ok(Some(version_of("uid", 6, &record)))), at(1, 1)));
    let LockRequest::Update { base, .. } = release else { panic!("{release:?}") };
    assert_eq!(base, held(6, "").version);
}

/// A candidate with the restored lock's version reacts to the watch events of the restored server.
#[test]
fn release_after_a_restore_is_noticed() {
    let mut candidate = watching();
    candidate.step(Signal::Read(Ok(Some(held(9, "other")))), at(0, 0));
    candidate.step(Signal::Watch(Hint::Down), at(1, 1));
    assert_eq!(sent(&candidate.step(Signal::Tick, at(4, 4))), LockRequest::Read);
    candidate.step(Signal::Read(Ok(Some(held(5, "other")))), at(4, 4));
    candidate.step(Signal::Watch(Hint::Up), at(4, 4));
    candidate.step(Signal::Watch(Hint::Changed(held(6, ""))), at(4, 4));
    let takeover = sent(&candidate.step(Signal::Tick, at(5, 5)));
    assert!(matches!(takeover, LockRequest::Update { .. }), "{takeover:?}");
}

/// Reads `state` until the `Machine` takes the lock over, and returns the time of the takeover.
fn takeover_of(machine: &mut Machine, state: &LockState, from: u64) -> u64 {
    let takes_over = |second: &u64| {
        let now = at(*second, *second as i64);
        machine.step(Signal::Tick, now);
        let instructions = machine.step(Signal::Read(Ok(Some(state.clone()))), now);
        instructions.iter().any(|sent| matches!(sent, Instruction::Send { request: LockRequest::Update { .. }, .. }))
    };
    (from..100).find(takes_over).expect("a takeover")
}

/// The server was restored from a backup in which the lock was free, or held by this candidate or by the same holder.
/// The holder may have renewed its lease right before the restore.
#[test]
fn candidate_waits_for_the_holder_before_a_restore() {
    let mut former = watching();
    let LockRequest::Create(record) = sent(&former.step(Signal::Read(Ok(None)), at(0, 0))) else { panic!() };
    former.step(written(), at(0, 0));
    former.step(Signal::Tick, at(10, 10));
    assert_eq!(sent(&former.step(Signal::WorkEnded, at(10, 10))), LockRequest::Read);
    let never = watching();
    let mut shorter = held(5, "other");
    shorter.record.lease_duration_seconds = 5;
    let backups = [
        (never.clone(), held(5, "")),
        (former, version_of("uid", 5, &record)),
        (never.clone(), held(5, "other")),
        (never, shorter),
    ];
    for (mut machine, backup) in backups {
        machine.step(Signal::Read(Ok(Some(held(1_000, "other")))), at(10, 10));
        machine.step(Signal::Watch(Hint::Down), at(11, 11));
        assert_eq!(sent(&machine.step(Signal::Tick, at(20, 20))), LockRequest::Read);
        assert_eq!(takeover_of(&mut machine, &backup, 20), 36, "{backup:?}");
    }
}

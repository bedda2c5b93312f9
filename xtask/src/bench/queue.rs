//! The area `queue`: workqueue and ratelimit beside client-go.

use super::{Area, Goal, Measure, Program, Run, Work};

/// The same work on both sides, or two works that are to be compared.
macro_rules! work {
    ($name:literal, $work:literal, $rows:expr) => {
        work!($name, $work, $work, $rows)
    };
    ($name:literal, $ours:literal, $theirs:literal, $rows:expr) => {
        Work {
            name: $name,
            ours: Run { program: Program::Rust("queue"), args: &[$ours] },
            peers: &[("client-go", Run { program: Program::Go("queue"), args: &[$theirs] })],
            rows: &$rows,
        }
    };
}

pub(crate) const AREA: Area = Area {
    name: "queue",
    about: "pintle-workqueue and pintle-ratelimit beside client-go; the memory is what is resident beyond the start, and no \
            key's own is counted",
    works: &[
        work!(
            "1 M keys added, then drained by 1 worker",
            "add-drain-1",
            [
                (Measure::WallPerOp, Goal::Times(4.0)),
                (Measure::CpuPerOp, Goal::None),
                (Measure::AllocationsPerOp, Goal::None),
                (Measure::PeakBytes, Goal::None),
            ]
        ),
        work!(
            "1 M keys added, then drained by 8 workers",
            "add-drain-8",
            [(Measure::WallPerOp, Goal::Times(4.0)), (Measure::CpuPerOp, Goal::None),]
        ),
        work!("of that, the adding", "add", [(Measure::WallPerOp, Goal::None), (Measure::CpuPerOp, Goal::None),]),
        work!(
            "of that, the draining by 1",
            "drain-1",
            [(Measure::WallPerOp, Goal::None), (Measure::CpuPerOp, Goal::None),]
        ),
        work!(
            "of that, the draining by 8",
            "drain-8",
            [(Measure::WallPerOp, Goal::None), (Measure::CpuPerOp, Goal::None),]
        ),
        work!(
            "8 producers, 8 consumers, 100 k hot keys",
            "hot",
            [(Measure::OpsPerSecond, Goal::Times(3.0)), (Measure::CpuPerOp, Goal::None),]
        ),
        work!(
            "the same, reference-counted keys on our side",
            "hot-counted",
            "hot",
            [(Measure::OpsPerSecond, Goal::None), (Measure::CpuPerOp, Goal::None),]
        ),
        work!(
            "one key: add, get, done",
            "cycle",
            [(Measure::WallPerOp, Goal::Times(1.5)), (Measure::AllocationsPerOp, Goal::AtMost(1e-4)),]
        ),
        work!(
            "the same, a reference-counted key on our side",
            "cycle-counted",
            "cycle",
            [(Measure::WallPerOp, Goal::None), (Measure::CpuPerOp, Goal::None),]
        ),
        work!(
            "100 keys: a new queue, add, get, done",
            "fresh",
            [
                (Measure::WallPerOp, Goal::None),
                (Measure::CpuPerOp, Goal::None),
                (Measure::AllocationsPerOp, Goal::None),
            ]
        ),
        work!(
            "1 M keys added after 0 to 1 s",
            "add-after",
            [
                (Measure::WallPerOp, Goal::Times(10.0)),
                (Measure::CpuPerOp, Goal::Times(5.0)),
                (Measure::PeakBytes, Goal::Times(2.0)),
                (Measure::AllocationsPerOp, Goal::None),
            ]
        ),
        work!(
            "the same, until the last is done",
            "ripen",
            [(Measure::WallPerOp, Goal::None), (Measure::CpuPerOp, Goal::None),]
        ),
        work!(
            "1 M keys added rate-limited",
            "rate-limited",
            [
                (Measure::WallPerOp, Goal::Times(5.0)),
                (Measure::CpuPerOp, Goal::Times(5.0)),
                (Measure::PeakBytes, Goal::None),
            ]
        ),
        work!(
            "the same, until the last is forgotten and done",
            "retried",
            [(Measure::WallPerOp, Goal::None), (Measure::CpuPerOp, Goal::None),]
        ),
        work!(
            "item limiter, when and forget",
            "item-limiter",
            [(Measure::WallPerOp, Goal::Times(1.5)), (Measure::CpuPerOp, Goal::Times(1.5)),]
        ),
        work!("10 M keys queued", "footprint", [(Measure::BytesPerOp, Goal::None)]),
        work!("what is left of that when they are done", "left-over", [(Measure::PeakBytes, Goal::None)]),
    ],
};

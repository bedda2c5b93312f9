//! The area `cel` compares pintle-cel to cel-go and to the crate `cel`.

use super::Goal::TimesOf;
use super::Measure::{AllocationsPerOp, CpuPerOp, WallPerOp};
use super::{Area, Around, Goal, Program, RUNS, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "cel",
    about: "pintle-cel, compared with cel-go with the options of kube-apiserver, and with the crate `cel`. The twelve rules are similar \
            to rules of Gateway API, and read the same JSON object. pintle-cel and cel-go check types and count costs. `cel` does \
            neither, and its object is converted before the measurement. An operation is one rule or one update",
    workloads: &[
        Workload {
            name: "compile: parse, check, plan",
            ours: &[ours(&["compile"], COMPILE)],
            peers: &[cel_go(&["compile"]), cel(&["peer-compile"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "evaluate all rules",
            ours: &[ours(&["evaluate"], EVALUATE)],
            peers: &[cel_go(&["evaluate"]), cel(&["peer-evaluate"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "evaluate rules that compare fields",
            ours: &[ours(&["evaluate-fields"], EVALUATE)],
            peers: &[cel_go(&["evaluate-fields"]), cel(&["peer-evaluate-fields"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "evaluate rules with comprehensions",
            ours: &[ours(&["evaluate-loops"], EVALUATE)],
            peers: &[cel_go(&["evaluate-loops"]), cel(&["peer-evaluate-loops"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "evaluate a rule with a pattern",
            ours: &[ours(&["evaluate-patterns"], EVALUATE)],
            peers: &[cel_go(&["evaluate-patterns"]), cel(&["peer-evaluate-patterns"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "update an object with twelve rules on the embedded server",
            ours: &[ours(&["write"], WRITE)],
            peers: &[(PLAIN, Run { program: Program::Rust("cel"), args: &["peer-write"] })],
            around: Around::Nothing,
            runs: RUNS,
        },
    ],
};

const CEL_GO: &str = "cel-go";
const CEL: &str = "cel";
/// The peer for workloads that update an object. It makes the same update to an object whose CustomResourceDefinition
/// has no rules.
const PLAIN: &str = "no rules";
/// The goal for a write with rules is at most 1.3 times the CPU time of a write without rules.
const WRITE: Rows = &[(WallPerOp, &[]), (CpuPerOp, &[TimesOf(PLAIN, 1.0 / 1.3)]), (AllocationsPerOp, &[])];
const COMPILE: Rows = &[(WallPerOp, &[TimesOf(CEL_GO, 2.0)]), (CpuPerOp, &[]), (AllocationsPerOp, &[])];
const EVALUATE: Rows = &[(WallPerOp, FASTER), (CpuPerOp, &[]), (AllocationsPerOp, &[])];
const FASTER: &[Goal] = &[TimesOf(CEL_GO, 3.0), TimesOf(CEL, 1.0)];

const fn ours(args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name: "", run: Run { program: Program::Rust("cel"), args }, rows }
}

const fn cel_go(args: &'static [&'static str]) -> (&'static str, Run) {
    (CEL_GO, Run { program: Program::Go("cel"), args })
}

const fn cel(args: &'static [&'static str]) -> (&'static str, Run) {
    (CEL, Run { program: Program::Rust("cel"), args })
}

//! Admission policies in CEL: their environments, compilation, matching and evaluation.
//!
//! The functions have no side effects. The registry of `pintle-apiserver` reads the policies, bindings and parameters
//! from the store. Error messages are the same as in kube-apiserver.

mod compile;
mod environment;
mod evaluate;
mod matching;
mod mutate;
mod type_check;

pub use compile::{CompiledPolicy, Expressions, INSTANTIATION_FAILED};
pub use evaluate::{Denial, Inputs, Verdict};
pub use matching::{Candidate, Matched, matches, name_of};
pub use mutate::MutationError;
pub use type_check::TypeCheck;

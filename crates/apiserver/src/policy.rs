//! Admission policies in CEL. This module contains the environments, the compilation, the matching and the evaluation
//! of CEL policies.
//!
//! The functions are pure. The module [`registry`](crate::registry) reads policies, bindings and parameters from the
//! store. The error texts are the same as in kube-apiserver.

mod compile;
mod environment;
mod evaluate;
mod matching;
mod mutate;
mod type_check;

pub(crate) use compile::{CompiledPolicy, Expressions, INSTANTIATION_FAILED};
pub(crate) use evaluate::{Denial, Inputs, Verdict};
pub(crate) use matching::{Candidate, Matched, matches, name_of};
pub(crate) use mutate::MutationError;
pub(crate) use type_check::TypeCheck;

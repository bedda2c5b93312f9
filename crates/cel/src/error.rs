//! Errors of compiling and evaluating expressions.

use std::fmt;
use std::sync::Arc;

use crate::source::CompileError;

/// The error of [`evaluate`](crate::evaluate).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The expression cannot be compiled.
    Compile(CompileError),
    /// The evaluation failed.
    Evaluate(EvalError),
    /// The variables cannot be serialized.
    Variables(String),
    /// The result of the expression cannot be represented as JSON.
    Result(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compile(error) => error.fmt(f),
            Self::Evaluate(error) => error.fmt(f),
            Self::Variables(message) => write!(f, "cannot serialize the variables of an expression: {message}"),
            Self::Result(message) => write!(f, "cannot convert the result of an expression to JSON: {message}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        Self::Compile(error)
    }
}

impl From<EvalError> for Error {
    fn from(error: EvalError) -> Self {
        Self::Evaluate(error)
    }
}

/// The error of a failed evaluation, with the cost of the evaluation up to the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    pub(crate) failure: Failure,
    pub(crate) cost: u64,
}

impl EvalError {
    /// Returns the error message, with the same text as in cel-go.
    pub fn message(&self) -> &str {
        self.failure.message()
    }

    /// Returns `true` if the evaluation failed because it exceeded its budget.
    pub fn is_out_of_budget(&self) -> bool {
        matches!(self.failure, Failure::Budget)
    }

    /// Returns the cost of the evaluation up to the failure.
    pub fn cost(&self) -> u64 {
        self.cost
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for EvalError {}

/// A failure during the evaluation of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An evaluation error. `||`, `&&` and the quantifiers ignore the error if another operand determines their result.
    Error(Arc<str>),
    /// The evaluation exceeded its budget. Operators do not ignore this failure, unlike an evaluation error.
    Budget,
}

impl Failure {
    /// Creates an error. `||`, `&&` and the quantifiers ignore the error if another operand determines their result.
    pub fn new(message: impl Into<String>) -> Self {
        Self::Error(message.into().into())
    }

    pub(crate) fn no_overload() -> Self {
        Self::new("no such overload")
    }

    pub(crate) fn no_key(key: impl fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    /// Returns the error message, with the same text as in cel-go.
    pub fn message(&self) -> &str {
        match self {
            Self::Error(message) => message,
            Self::Budget => "operation cancelled: actual cost limit exceeded",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Failure {}

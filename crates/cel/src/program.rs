//! Compiled expressions.

use std::fmt;
use std::sync::Arc;

use crate::activation::Variables;
use crate::budget::CompileBudget;
use crate::checker::{self, Checked};
use crate::environment::Environment;
use crate::error::{EvalError, Failure};
use crate::estimate::{self, CostRange};
use crate::eval::Evaluator;
use crate::meter::Meter;
use crate::parser;
use crate::plan::{self, Planned};
use crate::schema::Schema;
use crate::source::CompileError;
use crate::types::Type;
use crate::value::Value;

/// A compiled expression. A program is cheap to clone, and multiple threads can evaluate it concurrently.
#[derive(Clone)]
pub struct Program(Arc<Compiled>);

struct Compiled {
    planned: Planned,
    checked: Checked,
    root: Option<Arc<Schema>>,
    maps_have_fields: bool,
}

/// The result of an expression, and the cost of its evaluation.
#[derive(Clone, Debug)]
pub struct Evaluation<'a> {
    /// The result of the expression.
    pub value: Value<'a>,
    /// The cost of the evaluation in the units of cel-go.
    pub cost: u64,
}

impl Environment {
    /// Compiles an expression: parses it, checks its types and evaluates its constant subexpressions.
    ///
    /// # Errors
    ///
    /// Returns an error if the expression has syntax or type errors, or if the evaluation of a constant subexpression
    /// fails. The error messages are the same as in cel-go.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        self.compile_within(text, &CompileBudget::default())
    }

    /// Works like [`compile`](Self::compile), and spends the work on a budget that several expressions share.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`compile`](Self::compile). If the budget is exhausted, returns the error of an
    /// expression that is too complex.
    pub fn compile_within(&self, text: &str, budget: &CompileBudget) -> Result<Program, CompileError> {
        let ast = parser::parse(text, self.has_bindings())?;
        let checked = checker::check(self, text, ast, budget)?;
        let maps_have_fields = self.has_own_sizes();
        let planned = plan::plan(&checked);
        let planned = planned.map_err(|failure| CompileError::of_constant(text, failure.message()))?;
        Ok(Program(Arc::new(Compiled { planned, checked, root: self.root_schema().cloned(), maps_have_fields })))
    }
}

impl Program {
    /// Returns the result type of the expression.
    pub fn result_type(&self) -> &Type {
        self.0.checked.result()
    }

    /// Returns `true` if the expression reads the environment variable `variable`.
    pub fn uses(&self, variable: &str) -> bool {
        self.0.checked.variables.iter().any(|used| **used == *variable)
    }

    /// Estimates the cost of an evaluation from the sizes of literals and the size limits in schemas.
    ///
    /// The estimate assumes that strings and lists without a size limit have the maximum size that fits into a request.
    pub fn estimate(&self) -> CostRange {
        estimate::estimate(self.0.root.as_deref(), self.0.maps_have_fields, &self.0.checked)
    }

    /// Evaluates the expression with a maximum cost of `budget`.
    ///
    /// # Errors
    ///
    /// Returns an error if the evaluation fails or exceeds the budget. The error messages are the same as in cel-go.
    pub fn evaluate<'a>(&self, variables: &dyn Variables<'a>, budget: u64) -> Result<Evaluation<'a>, EvalError> {
        let Planned { plan, slots, patterns } = &self.0.planned;
        let mut evaluator = Evaluator {
            variables,
            meter: Meter::with_patterns(budget, patterns),
            slots: std::iter::repeat_with(|| None).take(*slots).collect(),
            inits: vec![None; *slots],
        };
        let result = evaluator.eval(plan);
        let cost = evaluator.meter.cost();
        match result {
            Ok(value) => Ok(Evaluation { value, cost }),
            Err(failure) => Err(EvalError { failure, cost }),
        }
    }

    /// Evaluates an expression that must return a boolean, such as a validation rule.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`evaluate`](Self::evaluate). The error is `no such overload` if the result is not a
    /// boolean.
    pub fn test(&self, variables: &dyn Variables<'_>, budget: u64) -> Result<bool, EvalError> {
        let Evaluation { value, cost } = self.evaluate(variables, budget)?;
        value.as_bool().ok_or_else(|| EvalError { failure: Failure::no_overload(), cost })
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("result_type", self.result_type()).finish_non_exhaustive()
    }
}

//! The values of the variables in an expression.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Failure;
use crate::value::Value;

/// Provides the values of an expression's variables. Use [`Activation`] if all values are known before the evaluation.
///
/// ```
/// use std::cell::OnceCell;
///
/// use pintle_cel::{Environment, Failure, Type, Value, Variables};
///
/// /// Computes the value of `node` when an expression first reads it.
/// #[derive(Default)]
/// struct Lazy(OnceCell<Value<'static>>);
///
/// impl Variables<'static> for Lazy {
///     fn value(&self, name: &str) -> Option<Result<Value<'static>, Failure>> {
///         (name == "node").then(|| Ok(self.0.get_or_init(|| Value::string("a")).clone()))
///     }
/// }
///
/// let program = Environment::new().variable("node", Type::String).compile("node == 'a'")?;
/// assert!(program.test(&Lazy::default(), 100)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Variables<'a> {
    /// Returns the value of the variable `name`, or `None` if there is no such variable. An expression that reads a
    /// variable with an error fails with that error.
    ///
    /// The evaluator calls this method each time an expression reads the variable. An implementation that evaluates
    /// other expressions must limit the recursion depth, because the call runs on the evaluator's stack.
    fn value(&self, name: &str) -> Option<Result<Value<'a>, Failure>>;

    /// Returns a reference to the value of the variable `name` if the value has already been computed. Reading fields
    /// through the reference is faster than through [`value`](Self::value).
    fn known(&self, _name: &str) -> Option<&Value<'a>> {
        None
    }
}

/// The values of an expression's variables.
///
/// The values in an activation can borrow data from the caller. To compute values lazily, implement [`Variables`].
///
/// ```
/// use pintle_cel::{Activation, Value};
///
/// let pod = serde_json::json!({"spec": {"nodeName": "a"}});
/// let activation = Activation::new().bind("object", &pod).bind("replicas", Value::Int(3));
/// ```
#[derive(Default)]
pub struct Activation<'a> {
    variables: BTreeMap<Box<str>, Result<Value<'a>, Failure>>,
}

impl<'a> Activation<'a> {
    /// Creates an activation without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of a variable.
    #[must_use]
    pub fn bind(mut self, name: &str, value: impl Into<Value<'a>>) -> Self {
        self.variables.insert(name.into(), Ok(value.into()));
        self
    }

    /// Sets a variable to a value or to an error. An expression that reads a variable with an error fails with that
    /// error.
    #[must_use]
    pub fn bind_result(mut self, name: &str, value: Result<Value<'a>, Failure>) -> Self {
        self.variables.insert(name.into(), value);
        self
    }
}

impl<'a> Variables<'a> for Activation<'a> {
    fn value(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        self.variables.get(name).cloned()
    }

    fn known(&self, name: &str) -> Option<&Value<'a>> {
        self.variables.get(name)?.as_ref().ok()
    }
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

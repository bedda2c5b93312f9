//! The values of variables.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Failure;
use crate::value::Value;

/// Computes the value of a variable when an expression first reads it.
pub type Lazy<'a> = dyn Fn() -> Result<Value<'a>, Failure> + 'a;

/// The values of an expression's variables.
///
/// Values refer to the caller's data. A [lazy](Self::bind_lazy) variable is computed only if an expression reads it, each time that it
/// does.
///
/// ```
/// use pintle_cel::{Activation, Value};
///
/// let pod = serde_json::json!({"spec": {"nodeName": "a"}});
/// let activation = Activation::new().bind("object", &pod).bind_lazy("replicas", || Ok(Value::Int(3)));
/// ```
#[derive(Default)]
pub struct Activation<'a> {
    variables: BTreeMap<Box<str>, Binding<'a>>,
}

enum Binding<'a> {
    Value(Value<'a>),
    Failed(Failure),
    Lazy(Box<Lazy<'a>>),
}

impl<'a> Activation<'a> {
    /// Creates an activation without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a variable a value.
    #[must_use]
    pub fn bind(mut self, name: &str, value: impl Into<Value<'a>>) -> Self {
        self.variables.insert(name.into(), Binding::Value(value.into()));
        self
    }

    /// Gives a variable a value, or an error that each use of the variable returns.
    #[must_use]
    pub fn bind_result(mut self, name: &str, value: Result<Value<'a>, Failure>) -> Self {
        let binding = match value {
            Ok(value) => Binding::Value(value),
            Err(failure) => Binding::Failed(failure),
        };
        self.variables.insert(name.into(), binding);
        self
    }

    /// Gives a variable a function that computes its value.
    ///
    /// The function runs on the stack of the evaluation. If it evaluates further expressions, the caller limits how deep.
    #[must_use]
    pub fn bind_lazy(mut self, name: &str, value: impl Fn() -> Result<Value<'a>, Failure> + 'a) -> Self {
        self.variables.insert(name.into(), Binding::Lazy(Box::new(value)));
        self
    }

    /// Returns a value that is not computed.
    pub(crate) fn value(&self, name: &str) -> Option<&Value<'a>> {
        match self.variables.get(name)? {
            Binding::Value(value) => Some(value),
            Binding::Failed(_) | Binding::Lazy(_) => None,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        Some(match self.variables.get(name)? {
            Binding::Value(value) => Ok(value.clone()),
            Binding::Failed(failure) => Err(failure.clone()),
            Binding::Lazy(compute) => compute(),
        })
    }
}

impl fmt::Debug for Activation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

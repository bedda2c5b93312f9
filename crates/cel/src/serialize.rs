//! Binds variables to values that implement `Serialize`.

use serde::Serialize;
use serde_json::Value as Json;

use crate::activation::Activation;
use crate::environment::Environment;
use crate::error::Error;
use crate::types::Type;
use crate::value::{Entries, Key, Text, Value};

/// kube-apiserver's cost limit for one expression. An evaluation with this budget takes at most about a second.
pub const CALL_LIMIT: u64 = 1_000_000;

/// The maximum nesting depth of a serialized value.
const MAX_DEPTH: usize = 256;

/// Compiles and evaluates an expression. Each field of `variables` is available as a variable.
///
/// `variables` must be a struct or a map with string keys. The budget of the evaluation is [`CALL_LIMIT`]. If you
/// evaluate an expression often, compile it once with [`Environment::compile`].
///
/// ```
/// # fn main() -> Result<(), pintle_cel::Error> {
/// #[derive(serde::Serialize)]
/// struct Request { user: String, replicas: u32 }
///
/// let request = Request { user: "ann".into(), replicas: 3 };
/// assert_eq!(pintle_cel::evaluate("user in ['ann', 'bob'] && replicas <= 5", &request)?, true);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns an error if the expression is invalid, if its evaluation fails, or if the variables or the result have no
/// JSON form.
pub fn evaluate(expression: &str, variables: &impl Serialize) -> Result<Json, Error> {
    let fields = match json(variables)? {
        Json::Object(fields) => fields,
        other => {
            let message = format!("the variables are the fields of a struct or a map, which {other} is not");
            return Err(Error::Variables(message));
        }
    };
    let (mut environment, mut activation) = (Environment::new(), Activation::new());
    for (name, value) in fields {
        environment = environment.variable(&name, Type::Dyn);
        activation = activation.bind(&name, owned(value, MAX_DEPTH)?);
    }
    let evaluation = environment.compile(expression)?.evaluate(&activation, CALL_LIMIT)?;
    evaluation.value.to_json().map_err(|failure| Error::Result(failure.message().into()))
}

impl Activation<'_> {
    /// Binds a variable to a value that implements `Serialize`.
    ///
    /// This method copies `value`. To avoid copying a `&serde_json::Value`, use [`bind`](Self::bind).
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be serialized as JSON, or if it has more than 256 nesting levels.
    pub fn bind_serialized(self, name: &str, value: &impl Serialize) -> Result<Self, Error> {
        let value = owned(json(value)?, MAX_DEPTH)?;
        Ok(self.bind(name, value))
    }
}

fn json(value: &impl Serialize) -> Result<Json, Error> {
    serde_json::to_value(value).map_err(|error| Error::Variables(error.to_string()))
}

fn owned(json: Json, depth: usize) -> Result<Value<'static>, Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::Variables(format!("the value is nested deeper than {MAX_DEPTH} levels")));
    };
    Ok(match json {
        Json::String(text) => Value::string(text),
        Json::Array(items) => Value::list(items.into_iter().map(|item| owned(item, depth)).collect::<Result<_, _>>()?),
        Json::Object(fields) => {
            let mut entries = Entries::default();
            for (name, field) in fields {
                entries.set(Key::String(Text::Owned(name.into())), owned(field, depth)?);
            }
            Value::Map(entries.into())
        }
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (None, number) => Value::Double(number.unwrap_or(f64::NAN)),
        },
    })
}

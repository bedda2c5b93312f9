//! The Common Expression Language (CEL) with a type checker and costs, as kube-apiserver evaluates it.
//!
//! | | |
//! |---|---|
//! | [`Environment`] | the variables and types that an expression can use |
//! | [`Program`] | a compiled expression: result type, estimated cost, evaluation |
//! | [`Activation`] | the values of the variables |
//! | [`Value`], [`Node`] | values, and the data that expressions read in place |
//! | [`Schema`] | the OpenAPI schema of data: types, sizes, formats |
//!
//! ```
//! use pintle_cel::{Activation, Environment, Type};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::new().variable("object", Type::Dyn);
//! let rule = environment.compile("object.spec.replicas <= 5 && object.spec.image.startsWith('registry/')")?;
//!
//! let object = serde_json::json!({"spec": {"replicas": 3, "image": "registry/web:1"}});
//! let activation = Activation::new().bind("object", &object);
//! assert!(rule.test(&activation, 10_000)?);
//! # Ok(())
//! # }
//! ```
//!
//! # Two phases
//!
//! [`Environment::compile`] parses an expression, checks its types and evaluates its constant parts. It reports findings in cel-go's
//! words, with positions. [`Program::evaluate`] reads the caller's data by reference and counts the cost. It stops when the budget is
//! spent.
//!
//! # Limits
//!
//! Expressions, schemas and data can come from strangers. An expression has at most 100,000 code points and a limited depth, patterns have
//! a limited size, and an evaluation ends soon after its budget is spent. Nothing panics.
//!
//! # Version
//!
//! Functions, messages and costs are those of kube-apiserver 1.36 with cel-go 0.26. Messages of protocol buffers are not supported.

mod activation;
mod ast;
mod checker;
mod cost;
mod environment;
mod error;
mod estimate;
mod eval;
mod functions;
mod lexer;
mod library;
mod meter;
mod node;
mod parser;
mod plan;
mod program;
mod schema;
mod source;
mod time;
mod types;
mod value;

pub use activation::{Activation, Lazy};
pub use environment::Environment;
pub use error::{EvalError, Failure};
pub use estimate::CostRange;
pub use library::authorizer::{Authorization, Authorizer, Decision, Question};
pub use library::cidr::Cidr;
pub use library::named_format::NamedFormat;
pub use library::quantity::Quantity;
pub use library::semver::Version;
pub use library::url::Url;
pub use node::{Node, Scalar};
pub use program::{Evaluation, Program};
pub use schema::{Schema, escape, unescape};
pub use source::{CompileError, Issue};
pub use time::Timestamp;
pub use types::Type;
pub use value::{List, Map, Object, Opaque, Text, Value};

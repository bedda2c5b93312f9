//! The Common Expression Language (CEL) with a type checker and costs, as kube-apiserver evaluates it.
//!
//! Use this crate to evaluate the rules of CustomResourceDefinitions and admission policies without a cluster. CEL is
//! also a safe expression language for the configuration of your own program. The crate does not depend on a Kubernetes
//! crate.
//!
//! ```
//! # fn main() -> Result<(), pintle_cel::Error> {
//! #[derive(serde::Serialize)]
//! struct Request { user: String, replicas: u32 }
//!
//! let request = Request { user: "ann".into(), replicas: 3 };
//! assert_eq!(pintle_cel::evaluate("user in ['ann', 'bob'] && replicas <= 5", &request)?, true);
//! # Ok(())
//! # }
//! ```
//!
//! To evaluate an expression often, compile it once. The program reads data in place:
//!
//! ```
//! use pintle_cel::{Activation, CALL_LIMIT, Environment, Type};
//!
//! # fn main() -> Result<(), pintle_cel::Error> {
//! let environment = Environment::new().variable("object", Type::Dyn);
//! let rule = environment.compile("object.spec.replicas <= 5 && object.spec.image.startsWith('registry/')")?;
//!
//! let object = serde_json::json!({"spec": {"replicas": 3, "image": "registry/web:1"}});
//! let activation = Activation::new().bind("object", &object);
//! assert!(rule.test(&activation, CALL_LIMIT)?);
//! # Ok(())
//! # }
//! ```
//!
//! # Main types
//!
//! | | |
//! |---|---|
//! | [`evaluate`] | compiles and evaluates an expression over any value that serde serializes |
//! | [`Environment`] | the variables and types that an expression can use |
//! | [`Program`] | a compiled expression: result type, estimated cost, evaluation |
//! | [`Activation`], [`Variables`] | the values of the variables |
//! | [`Value`], [`Node`] | values, and the data that expressions read in place |
//! | [`Schema`] | the OpenAPI schema of data: types, sizes, formats |
//! | [`CompileError`], [`EvalError`] | findings with positions, and the failure of an evaluation, in cel-go's words |
//!
//! # Two phases
//!
//! [`Environment::compile`] parses an expression, checks its types and evaluates its constant subexpressions. [`Program::evaluate`] reads
//! the caller's data by reference and counts the cost. The evaluation stops when the cost exceeds the budget. The budgets of kube-apiserver
//! are [`CALL_LIMIT`] for one expression, and ten times [`CALL_LIMIT`] for all rules of an object together.
//!
//! # Guarantees
//!
//! Expressions, schemas and data may come from untrusted users.
//!
//! - **No panic.** If arithmetic overflows or a converted value is out of range, the evaluation fails with an error.
//!   Fuzz targets and tests with hostile expressions check this guarantee.
//! - **Depth.** An expression nests at most 250 levels, as in cel-go, and its syntax tree has at most 400 levels. Data may be nested
//!   deeper, but data with more than 256 levels cannot be compared or converted to JSON or text. No other function recurses into data.
//! - **Size.** An expression has at most 100,000 code points, and at most 500 constant regular expressions.
//!   After the expansion of macros, an expression has at most 300,000 subexpressions. Expressions cannot
//!   access data that is more than 200 schema levels deep, or whose path has more than 1,000 bytes.
//! - **Time.** The cost model of cel-go does not count all work. For example, comparing two large objects
//!   costs only one unit. Therefore, an evaluation also counts units of work. One unit takes about a
//!   nanosecond in an optimized build. The limit is 1,000,000 units of work plus 100 for each unit of the cost
//!   budget. An evaluation that exceeds this limit fails, and [`EvalError::is_out_of_budget`] returns true.
//! - **Memory.** An evaluation allocates at most about one byte for each unit of work, and never a string of more than 16 MiB.
//! - **Threads.** A [`Program`] is cheap to clone, `Send` and `Sync`. The only global state is a table of functions and
//!   a set of patterns that are compiled on first use.
//!
//! # Supported features
//!
//! Functions, messages and costs match kube-apiserver 1.36 with cel-go 0.26:
//!
//! - the grammar of CEL with its macros, two-variable comprehensions, optional syntax (`a.?b`, `a[?0]`, `{?k: v}`), raw and byte strings
//! - CEL's standard functions, comparisons of numbers of different types, time zones
//! - cel-go's libraries for strings (version 2), lists (version 3), sets and optional values
//! - Kubernetes' libraries for lists, regular expressions, URLs, IP addresses, CIDRs, quantities, semantic versions, named formats,
//!   the authorizer and JSON patches
//!
//! As in kube-apiserver 1.36, the following features are absent: `math.*`, `base64.*`, `cel.bind`, `reverse` of strings, quoted field
//! names, and lists or maps of mixed types. The following features are not supported at all: messages of protocol buffers, unknown values
//! (partial evaluation), and your own functions and macros.

mod activation;
mod ast;
mod checker;
mod cost;
mod environment;
mod error;
mod estimate;
mod eval;
mod functions;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod go_text;
mod lexer;
mod library;
mod meter;
mod node;
mod opaque;
mod parser;
mod plan;
mod program;
mod re2;
mod schema;
mod serialize;
mod source;
mod time;
mod types;
mod value;

pub use activation::{Activation, Variables};
pub use environment::Environment;
pub use error::{Error, EvalError, Failure};
pub use estimate::CostRange;
pub use node::{Node, Scalar};
pub use opaque::Opaque;
pub use opaque::authorizer::{Authorization, Authorizer, Decision, Question};
pub use opaque::cidr::Cidr;
pub use opaque::named_format::NamedFormat;
pub use opaque::quantity::Quantity;
pub use opaque::semver::Version;
pub use opaque::url::Url;
pub use program::{Evaluation, Program};
pub use re2::{Pattern, Search};
pub use schema::{Schema, escape, is_identifier, unescape};
pub use serialize::{CALL_LIMIT, evaluate};
pub use source::{CompileError, Issue};
pub use time::Timestamp;
pub use types::Type;
pub use value::{List, Map, Object, Text, Value};

// Runs the examples of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! An implementation of the Common Expression Language (CEL) with kube-apiserver's type checks, functions and cost
//! limits.
//!
//! Use this crate to evaluate the rules of CustomResourceDefinitions and admission policies without a cluster, or to
//! embed a safe expression language in the configuration of your own program. The crate does not depend on any
//! Kubernetes crate.
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
//! If you evaluate an expression often, compile it once. The compiled program reads data without copying it:
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
//! [`Environment::compile`] parses an expression, checks its types and evaluates its constant subexpressions.
//! [`Program::evaluate`] evaluates the program on borrowed data and tracks the cost. The evaluation fails if its cost
//! exceeds the budget. kube-apiserver uses a budget of [`CALL_LIMIT`] for one expression, and a budget of ten times
//! [`CALL_LIMIT`] for all rules of an object.
//!
//! # Guarantees
//!
//! Expressions, schemas and data may come from untrusted users, because the crate gives the following guarantees:
//!
//! - **No panic.** The evaluation returns an error if arithmetic overflows or a converted value is out of range. Fuzz
//!   targets and tests with malicious expressions check this guarantee.
//! - **Depth.** An expression has at most 250 nesting levels, as in cel-go, and its syntax tree has at most 400 levels.
//!   Data may have any number of levels, but data with more than 256 levels cannot be compared, or converted to JSON or
//!   text. No other function recurses into data.
//! - **Size.** An expression has at most 100,000 code points, 500 constant regular expressions, and, after macro
//!   expansion, 300,000 subexpressions. Expressions cannot access data that is more than 200 schema levels deep, or
//!   whose path is longer than 1,000 bytes.
//! - **Time.** The cost model of cel-go does not cover all work. For example, comparing two large objects costs only
//!   one unit. An evaluation therefore also counts units of work, each of which takes about a nanosecond in an
//!   optimized build. The work limit is 1,000,000 units, plus 100 units for each unit of the cost budget. An evaluation
//!   that exceeds the work limit fails, and [`EvalError::is_out_of_budget`] returns `true` for the error.
//! - **Memory.** An evaluation allocates at most about one byte per unit of work. Strings are limited to 16 MiB.
//! - **Threads.** A [`Program`] is cheap to clone, `Send` and `Sync`. The only global state is a table of functions and
//!   a set of regular expressions, which are initialized on first use.
//!
//! # Supported features
//!
//! The functions, error messages and costs match kube-apiserver 1.36 with cel-go 0.26:
//!
//! - the grammar of CEL with its macros, two-variable comprehensions, optional syntax (`a.?b`, `a[?0]`, `{?k: v}`), raw
//!   and byte strings
//! - CEL's standard functions, comparisons of numbers of different types, time zones
//! - cel-go's libraries for strings (version 2), lists (version 3), sets and optional values
//! - Kubernetes' libraries for lists, regular expressions, URLs, IP addresses, CIDRs, quantities, semantic versions,
//!   named formats, the authorizer and JSON patches
//!
//! The following features are not available, as in kube-apiserver 1.36: `math.*`, `base64.*`, `reverse` of strings,
//! quoted field names, and lists or maps of mixed types. `cel.bind` is available only with
//! [`Environment::with_bindings`]. This crate does not support Protobuf messages, unknown values (partial evaluation),
//! or custom functions and macros.

mod activation;
mod ast;
mod budget;
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
pub use budget::CompileBudget;
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

/// The string formats that schemas share with the named formats of expressions.
#[doc(hidden)]
pub mod __private {
    pub use crate::opaque::named_format::{
        is_base64, is_date, is_date_time, is_label_name, is_request_uri, is_subdomain_name, is_uuid,
    };
    pub use crate::time::parse_schema_duration;
}

// Runs the examples of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

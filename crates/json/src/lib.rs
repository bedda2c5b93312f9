//! Compact JSON values with convenience methods.
//!
//! | | |
//! |---|---|
//! | [`Json`] | any value |
//! | [`Map`] | the members of an object |
//! | [`Text`] | a string or a key |
//! | [`json!`] | a value in JSON syntax |
//!
//! [`Json`] has the variants and methods of `serde_json::Value`, but uses only a third of the memory. Short strings and
//! keys are stored inline, and an object with a few members needs a single allocation. Additional methods access values
//! by JSON pointer, as the example shows:
//!
//! ```
//! use pintle_json::{Json, json};
//!
//! let mut pod = json!({"spec": {"nodeName": "a", "containers": [{"name": "main", "tty": true}]}});
//! assert_eq!(pod.text("/spec/nodeName"), "a");
//! assert_eq!(pod.text("/spec/hostname"), "");
//! assert!(pod.list("/spec/containers").all(|container| container.is_true("/tty")));
//!
//! pod.set("status", json!({"phase": "Running"}));
//! assert_eq!(pod["status"].to_string(), r#"{"phase":"Running"}"#);
//! ```
//!
//! `serde_json` can parse and serialize [`Json`] values. A `serde_json::Value` can be converted to and from [`Json`].
//! [`to_vec`], [`to_vec_pretty`], [`to_writer`] and `Display` format numbers like Go.

mod access;
mod convert;
mod de;
mod go_error;
mod index;
mod json;
mod macros;
mod map;
mod path;
mod ser;
mod text;
mod write;

pub use de::MapOrNumber;
pub use go_error::go_error;
pub use json::{Json, Map};
pub use map::{Entry, IntoMembers, Members, MembersMut};
pub use ser::to_json;
pub use text::Text;
pub use write::{go_float, to_vec, to_vec_pretty, to_writer};

//! JSON as a tree that is small in memory, with short words to read and change it.
//!
//! | | |
//! |---|---|
//! | [`Json`] | any value |
//! | [`Map`] | the members of an object |
//! | [`Text`] | a text or a key |
//! | [`json!`] | a value as it is written in JSON |
//!
//! [`Json`] has the variants and methods of `serde_json::Value`, in a third of the room: short texts and keys stand in the tree itself,
//! and an object of a few members is one allocation. Its own words take a path, as a JSON pointer:
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
//! It is read and written by `serde_json`'s functions, and converts both ways.

mod convert;
mod de;
mod index;
mod json;
mod macros;
mod map;
mod path;
mod ser;
mod text;
mod words;

pub use de::MapOrNumber;
pub use json::Json;
pub use map::{Entry, IntoMembers, Map, Members, MembersMut};
pub use ser::to_json;
pub use text::Text;

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
//! `serde_json`'s functions read and write it, and it converts both ways. [`to_vec`], [`to_vec_pretty`], [`to_writer`] and `Display` write
//! numbers as Go does.

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
mod write;

pub use de::MapOrNumber;
pub use json::Json;
pub use map::{Entry, IntoMembers, Map, Members, MembersMut};
pub use ser::to_json;
pub use text::Text;
pub use write::{to_vec, to_vec_pretty, to_writer};

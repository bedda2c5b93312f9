//! Object keys.

use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::scope::Scope;

/// The namespace and name of an object, which identify it among the objects of its resource. A key is written as
/// `namespace/name`, or as `name` for a cluster-scoped object.
///
/// Cloning a key increments a reference count and does not allocate. Keys have the same order as their text form. Two
/// keys are equal if they have the same namespace and the same name. As in client-go's `MetaNamespaceKeyFunc`, the uid
/// is not part of the key, so an object that is deleted and created again keeps its key.
///
/// # Examples
///
/// ```
/// use pintle_meta::ObjectKey;
///
/// let key: ObjectKey = "team-a/web".parse()?;
/// assert_eq!(key, ObjectKey::new("team-a", "web"));
/// assert_eq!((key.namespace(), key.name()), (Some("team-a"), "web"));
/// assert_eq!(ObjectKey::cluster("node-1").namespace(), None);
/// assert!("team-a/web/1".parse::<ObjectKey>().is_err());
/// # Ok::<(), pintle_meta::InvalidKey>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    text: Arc<str>,
    /// The byte offset of the name in `text`: the offset after the slash, or 0 if there is no namespace.
    name_at: u32,
}

impl ObjectKey {
    /// Creates a key from a namespace and a name. If the namespace is empty, the key identifies a cluster-scoped
    /// object.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self::cluster(name);
        }
        let name_at = namespace.len() + 1;
        // All valid keys fit into this buffer, which avoids the allocation of an intermediate `String`.
        let mut buffer = [0; 320];
        let text = match buffer.get_mut(..name_at + name.len()) {
            Some(text) => {
                text[..namespace.len()].copy_from_slice(namespace.as_bytes());
                text[namespace.len()] = b'/';
                text[name_at..].copy_from_slice(name.as_bytes());
                std::str::from_utf8(text).expect("two valid strings and a slash are a valid string").into()
            }
            None => format!("{namespace}/{name}").into(),
        };
        Self { text, name_at: name_at as u32 }
    }

    /// Creates the key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self { text: name.into(), name_at: 0 }
    }

    /// Returns the namespace, or `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        (self.name_at > 0).then(|| &self.text[..self.name_at as usize - 1])
    }

    /// Returns the object's name.
    pub fn name(&self) -> &str {
        &self.text[self.name_at as usize..]
    }

    /// Returns `true` if an object of a resource with this scope can have this key. Names from other objects, such as
    /// the name in an owner reference, can be impossible.
    #[doc(hidden)]
    pub fn is_possible(&self, scope: Scope) -> bool {
        let is_segment = |text: &str| !text.is_empty() && segment_fault(text).is_none();
        self.namespace().is_some() == (scope == Scope::Namespaced)
            && self.namespace().is_none_or(is_segment)
            && is_segment(self.name())
    }

    /// Returns the key in the form `namespace/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Returns why `text` is not a valid segment of a URL path, or `None` if it is valid. API servers reject the names of
/// objects that are not valid segments.
pub fn segment_fault(text: &str) -> Option<&'static str> {
    match text {
        "." | ".." => Some("it may not be \".\" or \"..\""),
        _ if text.contains('/') => Some("it may not contain \"/\""),
        _ if text.contains('%') => Some("it may not contain \"%\""),
        _ => None,
    }
}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl From<&ObjectKey> for ObjectKey {
    fn from(key: &ObjectKey) -> Self {
        key.clone()
    }
}

impl FromStr for ObjectKey {
    type Err = InvalidKey;

    /// Parses `name` or `namespace/name`, like client-go's `SplitMetaNamespaceKey`.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` contains more than one slash, begins with a slash, or has an empty name. In contrast,
    /// client-go accepts an empty name and a leading slash.
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            [name] if !name.is_empty() => Ok(Self::cluster(name)),
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(Self::new(namespace, name)),
            _ => Err(InvalidKey { text: text.into() }),
        }
    }
}

/// Works like [`parse`](str::parse). This implementation lets functions that take `impl TryInto<ObjectKey>` accept
/// strings.
impl TryFrom<&str> for ObjectKey {
    type Error = InvalidKey;

    fn try_from(text: &str) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

/// Works like [`parse`](str::parse).
impl TryFrom<String> for ObjectKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

/// Works like [`parse`](str::parse).
impl TryFrom<&String> for ObjectKey {
    type Error = InvalidKey;

    fn try_from(text: &String) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

/// The error when a string cannot be parsed as `name` or `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not an object key: expected \"name\" or \"namespace/name\"")]
pub struct InvalidKey {
    text: Box<str>,
}

/// Functions that take `impl TryInto<ObjectKey>` need this conversion, because converting a key to a key returns
/// [`Infallible`].
impl From<Infallible> for InvalidKey {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: Result<(Option<&str>, &str), ()>) {
        let key: Result<ObjectKey, _> = text.parse();
        assert_eq!(ObjectKey::try_from(text), key);
        assert_eq!(
            (ObjectKey::try_from(&text.to_owned()), ObjectKey::try_from(text.to_owned())),
            (key.clone(), key.clone())
        );
        assert_eq!(key.as_ref().map(|k| (k.namespace(), k.name())).map_err(|_| ()), expected, "{text:?}");
        if let Ok(key) = key {
            assert_eq!(key.to_string(), text);
            assert_eq!(key, ObjectKey::new(key.namespace().unwrap_or_default(), key.name()));
        }
    }

    /// Kubernetes does not allow slashes in names, but files and requests may contain such names.
    #[test]
    fn name_with_slash_differs_from_namespaced_name() {
        let (odd, plain) = (ObjectKey::cluster("a/b"), ObjectKey::new("a", "b"));
        assert_ne!(odd, plain);
        assert_ne!(odd.cmp(&plain), std::cmp::Ordering::Equal);
        assert_eq!(odd, ObjectKey::cluster("a/b"));
    }

    #[test]
    fn possible_key_fits_scope_and_path() {
        let cluster = |name| ObjectKey::cluster(name).is_possible(Scope::Cluster);
        assert!(cluster("a") && cluster("system:node") && cluster("..."));
        for name in ["", ".", "..", "a/b", "a%b"] {
            assert!(!cluster(name) && !ObjectKey::new("a", name).is_possible(Scope::Namespaced), "{name:?}");
        }
        assert!(ObjectKey::new("a", "b").is_possible(Scope::Namespaced));
        assert!(!ObjectKey::new("..", "b").is_possible(Scope::Namespaced));
        assert!(!ObjectKey::new("a", "b").is_possible(Scope::Cluster));
        assert!(!ObjectKey::cluster("b").is_possible(Scope::Namespaced));
    }

    #[test]
    fn key_has_one_or_two_parts() {
        check("blog", Ok((None, "blog")));
        check("team-a/blog", Ok((Some("team-a"), "blog")));
        check("", Err(()));
        check("/", Err(()));
        check("/blog", Err(()));
        check("team-a/", Err(()));
        check("a/b/c", Err(()));
        // Test lengths around 320 bytes, up to which `ObjectKey::new` formats keys without an allocation.
        for length in [1, 317, 318, 319, 1000] {
            let name = "ö".repeat(length / 2) + &"x".repeat(length % 2);
            check(&format!("a/{name}"), Ok((Some("a"), name.as_str())));
        }
    }

    proptest! {
        #[test]
        fn s17_keys_reject_two_slashes_and_empty_parts(text in "[a-c./]{0,8}") {
            let parts: Vec<&str> = text.split('/').collect();
            let expected = match parts[..] {
                _ if parts.iter().any(|part| part.is_empty()) => Err(()),
                [name] => Ok((None, name)),
                [namespace, name] => Ok((Some(namespace), name)),
                _ => Err(()),
            };
            check(&text, expected);
        }
    }
}

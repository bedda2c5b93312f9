//! The names of objects.

use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

/// The name of an object within its resource: `namespace/name`, or `name` for a cluster-scoped one.
///
/// Cloning is a reference count. Keys are ordered by their text, and equal if both namespace and name are. As with client-go's `MetaNamespaceKeyFunc`, the key says
/// nothing of the object's uid: an object that was deleted and created again has the same key.
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
#[derive(Clone)]
pub struct ObjectKey {
    text: Arc<str>,
    /// Where the name begins in `text`: 0 without a namespace, else one past the slash.
    name_at: u32,
}

impl ObjectKey {
    /// The key of `name` in `namespace`. An empty namespace means cluster scope.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self::cluster(name);
        }
        let name_at = namespace.len() + 1;
        // What Kubernetes allows fits, and then a key is one allocation and not two.
        let mut buffer = [0; 320];
        let text = match buffer.get_mut(..name_at + name.len()) {
            Some(text) => {
                text[..namespace.len()].copy_from_slice(namespace.as_bytes());
                text[namespace.len()] = b'/';
                text[name_at..].copy_from_slice(name.as_bytes());
                std::str::from_utf8(text).expect("two texts and a slash are a text").into()
            }
            None => format!("{namespace}/{name}").into(),
        };
        Self { text, name_at: name_at as u32 }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: &str) -> Self {
        Self { text: name.into(), name_at: 0 }
    }

    /// The namespace, absent for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        (self.name_at > 0).then(|| &self.text[..self.name_at as usize - 1])
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        &self.text[self.name_at as usize..]
    }

    /// The key as `namespace/name` or `name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for ObjectKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.name_at == other.name_at
    }
}

impl Eq for ObjectKey {}

impl Hash for ObjectKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text).then(self.name_at.cmp(&other.name_at))
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

    /// Reads `name` or `namespace/name`: client-go's `SplitMetaNamespaceKey`.
    ///
    /// # Errors
    ///
    /// More than one slash, an empty name, or an empty part before the slash. client-go takes the last two.
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            [name] if !name.is_empty() => Ok(Self::cluster(name)),
            [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(Self::new(namespace, name)),
            _ => Err(InvalidKey { text: text.into() }),
        }
    }
}

/// As [`parse`](str::parse), so that a text can stand wherever a key is asked for.
impl TryFrom<&str> for ObjectKey {
    type Error = InvalidKey;

    fn try_from(text: &str) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

/// As [`parse`](str::parse).
impl TryFrom<String> for ObjectKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

/// As [`parse`](str::parse).
impl TryFrom<&String> for ObjectKey {
    type Error = InvalidKey;

    fn try_from(text: &String) -> Result<Self, InvalidKey> {
        text.parse()
    }
}

/// A text that is not `name` or `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidKey {
    text: Box<str>,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not an object key: expected \"name\" or \"namespace/name\"", self.text)
    }
}

impl std::error::Error for InvalidKey {}

/// A key is a key: nothing can be wrong with it where a text could stand as well.
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

    /// No object of Kubernetes has such a name, but a file or a request may say so.
    #[test]
    fn a_name_with_a_slash_is_not_a_name_in_a_namespace() {
        let (odd, plain) = (ObjectKey::cluster("a/b"), ObjectKey::new("a", "b"));
        assert_ne!(odd, plain);
        assert_ne!(odd.cmp(&plain), std::cmp::Ordering::Equal);
        assert_eq!(odd, ObjectKey::cluster("a/b"));
    }

    #[test]
    fn a_key_has_one_part_or_two() {
        check("blog", Ok((None, "blog")));
        check("team-a/blog", Ok((Some("team-a"), "blog")));
        check("", Err(()));
        check("/", Err(()));
        check("/blog", Err(()));
        check("team-a/", Err(()));
        check("a/b/c", Err(()));
        // Whether they fit into what Kubernetes allows or not.
        for length in [1, 317, 318, 319, 1000] {
            let name = "ö".repeat(length / 2) + &"x".repeat(length % 2);
            check(&format!("a/{name}"), Ok((Some("a"), name.as_str())));
        }
    }

    proptest! {
        #[test]
        fn s17_a_text_is_a_key_unless_it_has_two_slashes_or_an_empty_part(text in "[a-c./]{0,8}") {
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

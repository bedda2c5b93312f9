//! Fencing: what a resource compares to keep a leader out that is no longer one.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use pintle_meta::ObjectMeta;
use thiserror::Error;

use crate::Version;

/// The annotation that [`Token::stamp`] writes.
pub const TOKEN_ANNOTATION: &str = "pintle-fencing-token";

/// The number of a term: the revision in which the lock was taken.
///
/// Tokens have an order within one uid only, and there each term's token is greater than those before. A resource that
/// remembers the greatest one it has seen, and refuses what comes with a lesser, is safe from leaders that were frozen; nothing else
/// is. For objects of Kubernetes, [`stamp`](Token::stamp) and [`verify`](Token::verify) do that: read the object,
/// verify, stamp, and update it with the resourceVersion that was read. Each leader has to stamp what it relies on before it
/// relies on it.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::Token;
/// use pintle_meta::ObjectMeta;
///
/// let old = Token { uid: "a".into(), revision: 7 };
/// let new = Token { uid: "a".into(), revision: 9 };
/// let mut metadata = ObjectMeta::default();
/// new.verify(&metadata).unwrap();
/// new.stamp(&mut metadata);
/// assert_eq!(old.verify(&metadata).unwrap_err().to_string(), "the object was stamped by term a/9, and this is term a/7");
/// new.verify(&metadata).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The uid of the lock.
    pub uid: String,
    /// Its resourceVersion as the term began.
    pub revision: u64,
}

impl Token {
    /// The token of that version; none if its resourceVersion is no number. Kubernetes promises that it is one since 1.35, and
    /// made it one before.
    pub fn of(version: &Version) -> Option<Self> {
        Some(Self { uid: version.uid.clone(), revision: version.resource_version.parse().ok()? })
    }

    /// Leaves this token on an object, in an [annotation](TOKEN_ANNOTATION).
    pub fn stamp(&self, metadata: &mut ObjectMeta) {
        metadata.annotations.insert(TOKEN_ANNOTATION.into(), self.to_string());
    }

    /// Checks that no later term has stamped the object.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if one has, or if that cannot be told: the stamp is of a lock of another uid, or unreadable. After a lock was
    /// deleted and made anew, the stamps of the old one have to be replaced by somebody who knows that its leader is gone.
    pub fn verify(&self, metadata: &ObjectMeta) -> Result<(), StaleToken> {
        let Some(text) = metadata.annotations.get(TOKEN_ANNOTATION) else { return Ok(()) };
        match text.parse::<Self>() {
            Ok(found) if found <= *self => Ok(()),
            _ => Err(StaleToken { found: text.clone(), token: self.clone() }),
        }
    }
}

impl PartialOrd for Token {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self.uid == other.uid).then(|| self.revision.cmp(&other.revision))
    }
}

/// `uid/revision`.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.uid, self.revision)
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let parts = text.rsplit_once('/').and_then(|(uid, revision)| Some((uid, revision.parse().ok()?)));
        let (uid, revision) = parts.ok_or_else(|| InvalidToken { text: text.into() })?;
        Ok(Self { uid: uid.into(), revision })
    }
}

/// A text that is no [`Token`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no fencing token; one is the uid of a lock, a slash, and a revision")]
pub struct InvalidToken {
    /// The text.
    pub text: String,
}

/// An object belongs to a later term, or to one that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the object was stamped by term {found}, and this is term {token}")]
pub struct StaleToken {
    /// The stamp.
    pub found: String,
    /// The token that was to be verified.
    pub token: Token,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_an_order_within_one_uid_only() {
        let token = |text: &str| text.parse::<Token>().unwrap();
        assert!(token("a/9") < token("a/10") && token("a/10") >= token("a/10"));
        assert_eq!(token("a/9").partial_cmp(&token("b/10")), None);
        for text in ["", "a", "a/", "a/-1", "a/1.5"] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let token: Token = "a/9".parse().unwrap();
        for (stamp, passes) in [("a/8", true), ("a/9", true), ("a/10", false), ("b/1", false), ("?", false)] {
            let mut metadata = ObjectMeta::default();
            metadata.annotations.insert(TOKEN_ANNOTATION.into(), stamp.into());
            assert_eq!(token.verify(&metadata).is_ok(), passes, "{stamp}");
        }
    }

    #[test]
    fn a_version_without_a_number_has_no_token() {
        let version = |text: &str| Version { uid: "a".into(), resource_version: text.into() };
        assert_eq!(Token::of(&version("9")), Some("a/9".parse().unwrap()));
        assert_eq!(Token::of(&version("x9")), None);
    }
}

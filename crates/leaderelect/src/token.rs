//! Fencing tokens, which let a resource reject requests of former leaders.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use pintle_meta::ObjectMeta;
use thiserror::Error;

use crate::record::Version;

/// The annotation that [`Token::stamp`] writes.
pub const TOKEN_ANNOTATION: &str = "pintle-fencing-token";

/// The fencing token of a term: the lock's uid, and the lock's resourceVersion at the beginning of the term.
///
/// Tokens can only be compared if they have the same uid. The token of each term is greater than the tokens of all
/// earlier terms with the same uid. A resource can remember the greatest token that it has received, and reject
/// requests with smaller tokens. With this check, a former leader that was frozen can no longer change the resource. No
/// other check can prevent a late change by a former leader.
///
/// For Kubernetes objects, use [`verify`](Token::verify) and [`stamp`](Token::stamp): read the object, verify it, stamp
/// it, and update it with the resourceVersion from the read. Each leader must stamp an object before it relies on the
/// content of the object.
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
    /// The uid of the object that stores the lock.
    pub uid: String,
    /// The resourceVersion of the lock object at the beginning of the term.
    pub revision: u64,
}

impl Token {
    /// Returns the token for the given version of the lock. Returns `None` if the resourceVersion is not numeric.
    /// Kubernetes has guaranteed numeric resourceVersions since 1.35, and earlier versions used numbers too.
    pub fn of(version: &Version) -> Option<Self> {
        Some(Self { uid: version.uid.clone(), revision: version.resource_version.parse().ok()? })
    }

    /// Writes this token into the metadata of an object, as an [annotation](TOKEN_ANNOTATION).
    pub fn stamp(&self, metadata: &mut ObjectMeta) {
        metadata.annotations.insert(TOKEN_ANNOTATION.into(), self.to_string());
    }

    /// Returns an error if a later term has stamped the object.
    ///
    /// # Errors
    ///
    /// Returns [`StaleToken`] if a later term has stamped the object, or if the stamp cannot be parsed or has another
    /// uid. If the lock was deleted and recreated, or if the number of shards was changed, wait until the old leader
    /// has stopped, and then replace the old stamps.
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

/// Formats the token as `uid/revision`.
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

/// The error for a string that is not a valid [`Token`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a fencing token; expected UID/REVISION")]
pub struct InvalidToken {
    /// The invalid text.
    pub text: String,
}

/// The error for an object with the stamp of a later term, or with a stamp that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the object was stamped by term {found}, and this is term {token}")]
pub struct StaleToken {
    /// The object's stamp.
    pub found: String,
    /// The token that was compared with the object's stamp.
    pub token: Token,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_ordered_only_within_one_uid() {
        let token = |text: &str| text.parse::<Token>().unwrap();
        assert!(token("a/9") < token("a/10") && token("a/10") >= token("a/10"));
        assert_eq!(token("a/9").partial_cmp(&token("b/10")), None);
        for text in ["", "a", "a/", "a/-1", "a/1.5"] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }

    #[test]
    fn incomparable_tokens_are_rejected() {
        let token: Token = "a/9".parse().unwrap();
        for (stamp, passes) in [("a/8", true), ("a/9", true), ("a/10", false), ("b/1", false), ("?", false)] {
            let mut metadata = ObjectMeta::default();
            metadata.annotations.insert(TOKEN_ANNOTATION.into(), stamp.into());
            assert_eq!(token.verify(&metadata).is_ok(), passes, "{stamp}");
        }
    }

    #[test]
    fn version_without_a_number_has_no_token() {
        let version = |text: &str| Version { uid: "a".into(), resource_version: text.into() };
        assert_eq!(Token::of(&version("9")), Some("a/9".parse().unwrap()));
        assert_eq!(Token::of(&version("x9")), None);
    }
}

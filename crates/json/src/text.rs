//! Strings and keys.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// A string that needs no allocation if it has at most 24 bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(CompactString);

impl Text {
    /// Creates an empty string.
    pub const fn new() -> Self {
        Self(CompactString::const_new(""))
    }

    /// Returns the string as a `str`.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Appends a string.
    pub fn push_str(&mut self, more: &str) {
        self.0.push_str(more);
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.0.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

macro_rules! equal {
    ($($text:ty)*) => {$(
        impl PartialEq<$text> for Text {
            fn eq(&self, other: &$text) -> bool {
                let other: &str = other;
                self.as_str() == other
            }
        }

        impl PartialEq<Text> for $text {
            fn eq(&self, other: &Text) -> bool {
                other == self
            }
        }
    )*};
}

equal!(str &str String);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self(text.as_str().into())
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Self {
        text.clone()
    }
}

impl From<Cow<'_, str>> for Text {
    fn from(text: Cow<'_, str>) -> Self {
        Self(text.into())
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0.into()
    }
}

impl From<&Text> for String {
    fn from(text: &Text) -> Self {
        text.as_str().to_owned()
    }
}

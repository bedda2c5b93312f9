//! Decodes `null` as the empty value of a type, like Go.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Decodes `null` as `T::default()`, because Go encodes a nil map or slice as `null`. Use this function in
/// `#[serde(deserialize_with)]`.
pub fn or_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Returns `true` for the default value. Use this function in `#[serde(skip_serializing_if)]`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) struct OrEmpty<T>(pub(crate) T);

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for OrEmpty<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_empty(deserializer).map(Self)
    }
}

/// A map of strings, which decodes a `null` value as an empty string.
#[derive(Default)]
pub(crate) struct Texts(pub(crate) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
                let mut texts = BTreeMap::new();
                while let Some((name, OrEmpty(text))) = map.next_entry()? {
                    texts.insert(name, text);
                }
                Ok(Texts(texts))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

/// A list that usually has few elements, and decodes a `null` element as `T::default()`. A list of one or two
/// elements has no spare capacity.
pub(crate) struct Few<T>(pub(crate) Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Default + Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Default + Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Few<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Few<T>, A::Error> {
                let mut elements = Vec::new();
                while let Some(OrEmpty(element)) = seq.next_element()? {
                    if elements.len() == elements.capacity() {
                        // Reserve a capacity of 1, then 2, then 4 elements, because `Vec` would start with 4.
                        elements.reserve_exact(elements.len().max(1));
                    }
                    elements.push(element);
                }
                Ok(Few(elements))
            }
        }

        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

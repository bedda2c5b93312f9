//! Serde helpers for kubeconfig fields.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use pintle_meta::Secret;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serializer};
use zeroize::Zeroizing;

/// Reads a list of strings, and converts each `null` item to an empty string, like kubectl.
pub(crate) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let texts: Option<Vec<Option<String>>> = Option::deserialize(deserializer)?;
    Ok(texts.unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect())
}

/// Reads a map from strings to lists of strings, and converts `null` to an empty list or an empty string, like
/// kubectl.
pub(crate) fn text_lists<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    struct Texts(#[serde(deserialize_with = "texts")] Vec<String>);
    let lists: Option<BTreeMap<String, Texts>> = Option::deserialize(deserializer)?;
    Ok(lists.unwrap_or_default().into_iter().map(|(name, Texts(texts))| (name, texts)).collect())
}

pub(crate) fn optional_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let text: Option<String> = Option::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()).map(PathBuf::from))
}

/// Defines a module that (de)serializes a map of `$type` by name as a list of `{name: …, $member: …}` entries.
macro_rules! named_list {
    ($module:ident, $member:literal, $type:ident) => {
        mod $module {
            use std::collections::BTreeMap;

            use pintle_meta::__private::or_empty;
            use serde::de::Error as _;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            use super::$type;

            #[derive(Deserialize)]
            struct Entry {
                #[serde(default, deserialize_with = "or_empty")]
                name: String,
                #[serde(default, rename = $member, deserialize_with = "or_empty")]
                value: $type,
            }

            #[derive(Serialize)]
            struct EntryRef<'a> {
                name: &'a str,
                #[serde(rename = $member)]
                value: &'a $type,
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<BTreeMap<String, $type>, D::Error> {
                let entries: Option<Vec<Entry>> = Option::deserialize(deserializer)?;
                let mut named = BTreeMap::new();
                for Entry { name, value } in entries.unwrap_or_default() {
                    if named.insert(name.clone(), value).is_some() {
                        return Err(D::Error::custom(format_args!(
                            concat!("two entries for ", $member, " {:?}; remove one of them"),
                            name
                        )));
                    }
                }
                Ok(named)
            }

            pub(crate) fn serialize<S: Serializer>(
                named: &BTreeMap<String, $type>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(named.iter().map(|(name, value)| EntryRef { name, value }))
            }
        }
    };
}

pub(crate) use named_list;

/// A secret string that is erased from memory when dropped and never appears in error messages.
pub(crate) struct HiddenText(pub(crate) Option<Zeroizing<String>>);

impl<'de> Deserialize<'de> for HiddenText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = HiddenText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HiddenText, E> {
                Ok(HiddenText(Some(Zeroizing::new(text.into()))))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<HiddenText, E> {
                Ok(HiddenText(None))
            }

            fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<HiddenText, E> {
                Err(E::custom("a boolean where a string is needed; put it in quotes"))
            }

            fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<HiddenText, E> {
                Err(E::custom("a number where a string is needed; put it in quotes"))
            }

            fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<HiddenText, E> {
                Err(E::custom("a number where a string is needed; put it in quotes"))
            }

            fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<HiddenText, E> {
                Err(E::custom("a number where a string is needed; put it in quotes"))
            }
        }

        deserializer.deserialize_any(Text)
    }
}

/// Reads an optional secret, and converts an empty string to `None`.
pub(crate) mod secret {
    use super::*;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
        let text = HiddenText::deserialize(deserializer)?.0.filter(|text| !text.is_empty());
        Ok(text.map(|text| Secret::new(text.as_str())))
    }

    pub(crate) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.as_ref().map_or("", Secret::expose))
    }
}

pub(crate) mod secrets {
    use super::*;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Secret>, D::Error> {
        let texts: Option<BTreeMap<String, HiddenText>> = Option::deserialize(deserializer)?;
        let texts = texts.unwrap_or_default().into_iter();
        Ok(texts.map(|(key, text)| (key, Secret::new(text.0.unwrap_or_default().as_str()))).collect())
    }

    pub(crate) fn serialize<S: Serializer>(
        secrets: &BTreeMap<String, Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(secrets.iter().map(|(key, secret)| (key, secret.expose())))
    }
}

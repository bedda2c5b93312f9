//! Certificates and keys, which a kubeconfig contains as base64.

use std::fmt;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::de::HiddenText;

/// A base64 decoder that requires padding and ignores unused trailing bits, like Go's.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// A certificate or key as bytes, which a kubeconfig contains as base64. The `Debug` output contains only the number of
/// bytes. Dropping a `Data` erases the bytes from memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Data(pub Vec<u8>);

impl Drop for Data {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl ZeroizeOnDrop for Data {}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = HiddenText::deserialize(deserializer)?.0.unwrap_or_default();
        // Remove line breaks and spaces, because long base64 values often span several lines.
        let text: Zeroizing<Vec<u8>> =
            Zeroizing::new(text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect());
        BASE64.decode(&*text).map(Self).map_err(|_| D::Error::custom("the value is not base64"))
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.0))
    }
}

pub(crate) fn optional_data<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Data>, D::Error> {
    let data: Option<Data> = Option::deserialize(deserializer)?;
    Ok(data.filter(|data| !data.0.is_empty()))
}

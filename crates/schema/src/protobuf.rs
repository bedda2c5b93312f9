//! The protobuf format of built-in kinds, which Go clients prefer.
//!
//! A body consists of four magic bytes and an envelope, which contains the version, the kind and the encoded object.
//! The field numbers of messages are in the type table (`types.txt`). This module converts between protobuf bodies and
//! JSON values.

mod envelope;
mod marshal;
mod unmarshal;
mod wire;

pub use envelope::{Enveloped, LENGTH, ListEnvelope};
pub use marshal::message;
pub use unmarshal::{decode, missing_message};

#[cfg(test)]
mod tests;

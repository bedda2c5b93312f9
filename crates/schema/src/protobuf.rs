//! The protobuf format of built-in kinds, which Go clients prefer.
//!
//! A body consists of four magic bytes and an envelope. The envelope contains the encoded object with its version and
//! kind. The field numbers of messages are in the type table (`types.txt`). This module converts between protobuf
//! bodies and JSON values.

mod envelope;
mod marshal;
mod unmarshal;
mod wire;

pub use envelope::{Enveloped, LENGTH, ListEnvelope};
pub use marshal::message;
pub use unmarshal::decode;

#[cfg(test)]
mod tests;

//! The protobuf format of built-in kinds, which Go clients prefer to JSON.
//!
//! A body consists of four magic bytes and an envelope. The envelope contains the encoded object with its version and kind. The messages'
//! field numbers come from the type table (`types.txt`). Decoding returns a JSON value, and encoding takes a JSON value.

mod envelope;
mod marshal;
mod unmarshal;
mod wire;

pub use envelope::{Enveloped, LENGTH, ListEnvelope};
pub use marshal::message;
pub use unmarshal::decode;

#[cfg(test)]
mod tests;

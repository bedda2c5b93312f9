//! The protobuf encoding of built-in kinds. Clients in Go prefer this encoding to JSON.
//!
//! A body consists of four magic bytes and an envelope, which contains the kind. The table of built-in types (`types.txt`) describes the
//! message in the envelope, with the number of each field. Decoding returns the JSON of the same object. Encoding takes the JSON of an
//! object.

mod envelope;
mod marshal;
mod unmarshal;
mod wire;

pub use envelope::{Enveloped, LENGTH, ListEnvelope};
pub use marshal::message;
pub use unmarshal::decode;

#[cfg(test)]
mod tests;

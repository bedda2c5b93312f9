//! Encodes and decodes the protobuf format of built-in kinds. Clients that are written in Go prefer this format to JSON.
//!
//! A body consists of four magic bytes and an envelope. The envelope contains the encoded object, its version and its kind. The type table
//! (`types.txt`) contains the field numbers of the messages. Decoding a body returns the JSON value of the object. Encoding starts from the
//! JSON value of the object.

mod envelope;
mod marshal;
mod unmarshal;
mod wire;

pub use envelope::{Enveloped, LENGTH, ListEnvelope};
pub use marshal::message;
pub use unmarshal::decode;

#[cfg(test)]
mod tests;

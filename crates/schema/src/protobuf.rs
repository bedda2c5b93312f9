//! The protobuf encoding of built-in kinds. Clients written in Go prefer it.
//!
//! A body is four magic bytes and an envelope that names the kind. The table of built-in types (`types.txt`) describes the message in the
//! envelope, with the number of each field. Decoding returns the JSON that the client could have sent. Encoding takes the JSON that the
//! client could have received.

mod envelope;
mod marshal;
mod unmarshal;
mod wire;

pub use envelope::{Enveloped, LENGTH, ListEnvelope};
pub use marshal::message;
pub use unmarshal::decode;

#[cfg(test)]
mod tests;

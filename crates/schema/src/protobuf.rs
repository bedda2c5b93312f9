//! Bodies in protobuf, which the clients of the built-in kinds that are written in Go prefer to send and to get.
//!
//! A body is four bytes of magic and an envelope that names the kind. The message within is described by the table of the built-in
//! types (`types.txt`), which has the number of each field: it is read into the same JSON that the client could have sent,
//! and made of the JSON that the client could have got.

mod envelope;
mod marshal;
mod unmarshal;
mod wire;

pub use envelope::{Enveloped, LENGTH, ListEnvelope};
pub use marshal::message;
pub use unmarshal::decode;

#[cfg(test)]
mod tests;

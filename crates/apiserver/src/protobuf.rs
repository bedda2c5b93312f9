//! Bodies in protobuf, which clients of the built-in kinds prefer to send: kubectl among them.
//!
//! A body is four bytes of magic and an envelope that names the kind. The message within is read by the table of the built-in
//! types (`schema/types.txt`), which has the number of each field, into the same JSON that the client could have sent.

mod decode;
mod wire;

pub(crate) use decode::decode;

#[cfg(test)]
mod tests;

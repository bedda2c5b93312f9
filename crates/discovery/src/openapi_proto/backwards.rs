//! Writes protobuf from the end to the start. A message begins with its length, which the writer knows only after it
//! has written the message. Writing backwards avoids moving bytes to insert the length, even for deeply nested
//! messages.

/// The protobuf output so far, in reverse byte order.
#[derive(Default)]
pub(super) struct Backwards(Vec<u8>);

impl Backwards {
    /// Returns the output in normal byte order. The output begins with the field that was written last.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.reverse();
        self.0
    }

    pub(super) fn varint(&mut self, number: u32, value: u64) {
        self.digits(value);
        self.tag(number, 0);
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.0.extend(value.to_be_bytes());
        self.tag(number, 1);
    }

    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.nested(number, |out| out.0.extend(bytes.iter().rev()));
    }

    pub(super) fn nested(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let end = self.0.len();
        write(self);
        self.digits((self.0.len() - end) as u64);
        self.tag(number, 2);
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.digits(u64::from(number) << 3 | wire_type);
    }

    /// Writes a varint. Each byte of a varint contains seven bits of the number. All bytes of a varint except the last
    /// have the top bit set.
    fn digits(&mut self, value: u64) {
        let count = (u64::BITS - (value | 1).leading_zeros()).div_ceil(7);
        let digit = |at: u32| (value >> (7 * at) & 0x7f) as u8;
        self.0.push(digit(count - 1));
        self.0.extend((0..count - 1).rev().map(|at| digit(at) | 0x80));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_written_field_comes_first() {
        let mut out = Backwards::default();
        out.double(4, 1.5);
        out.nested(3, |out| {
            out.bytes(2, b"ab");
            out.varint(16, 300);
        });
        out.varint(1, 0);
        out.varint(2, u64::MAX);
        let all_bits = [&[0x10][..], &[0xff; 9], &[1]].concat();
        let rest = [8, 0, 0x1a, 8, 0x80, 1, 0xac, 2, 0x12, 2, b'a', b'b', 0x21, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f];
        assert_eq!(out.finish(), [&all_bits[..], &rest].concat());
    }
}

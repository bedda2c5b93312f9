//! Reads and writes the fields of the protobuf wire format.

/// Appends an integer field. Negative 32-bit numbers are encoded as 64-bit numbers.
pub(super) fn varint(number: u32, value: i64, to: &mut Vec<u8>) {
    tag(number, 0, to);
    digits(value.cast_unsigned(), to);
}

pub(super) fn fixed64(number: u32, bits: u64, to: &mut Vec<u8>) {
    tag(number, 1, to);
    to.extend_from_slice(&bits.to_le_bytes());
}

pub(super) fn bytes(number: u32, bytes: &[u8], to: &mut Vec<u8>) {
    length(number, bytes.len(), to);
    to.extend_from_slice(bytes);
}

pub(super) fn length(number: u32, length: usize, to: &mut Vec<u8>) {
    tag(number, 2, to);
    digits(length as u64, to);
}

pub(super) fn nested<R>(number: u32, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    tag(number, 2, to);
    let start = to.len();
    let written = write(to);
    // The length of a nested message comes before its content. Write the length after the content, when it is known,
    // and then move it to the front.
    let end = to.len();
    digits((end - start) as u64, to);
    let digits = to.len() - end;
    to[start..].rotate_right(digits);
    written
}

fn tag(number: u32, wire_type: u64, to: &mut Vec<u8>) {
    digits(u64::from(number) << 3 | wire_type, to);
}

/// Appends a varint. Each byte contains seven bits of the number, starting with the lowest bits.
fn digits(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl WireValue<'_> {
    /// Returns the field's wire type. Error messages contain the wire type instead of the value, because the value can
    /// be long.
    pub(super) fn wire_type(self) -> &'static str {
        match self {
            Self::Varint(_) => "a varint",
            Self::Fixed64(_) => "a 64-bit number",
            Self::Fixed32(_) => "a 32-bit number",
            Self::Bytes(_) => "a byte string",
        }
    }
}

/// An iterator over the fields of a message in wire order, which ends after an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireFields<'a> {
    rest: &'a [u8],
}

impl<'a> WireFields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u32, WireValue<'a>), String> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| format!("invalid field number {}", tag >> 3))?;
        let content = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                WireValue::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => WireValue::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(format!("field {number} has the unknown wire type {other}")),
        };
        Ok((number, content))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a varint is longer than ten bytes".into())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or("the message ends too early")?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = Result<(u32, WireValue<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

//! The wire format of protobuf, one field at a time.

/// A field as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Content<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message, in the order of the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u32, Content<'a>), String> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| format!("{} is no field number", tag >> 3))?;
        let content = match tag & 7 {
            0 => Content::Varint(self.varint()?),
            1 => Content::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                Content::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => Content::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(format!("field {number} is of the unknown wire type {other}")),
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
        Err("a number is longer than ten bytes".into())
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

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Content<'a>), String>;

    /// After an error there is nothing more to read.
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

//! Finds the newest entries of an object's `managedFields`.

use std::ops::Range;

use super::cursor::Cursor;

const MOST: usize = 4;

/// The entries of `managedFields` with the latest time. The time has a resolution of one second, so several entries can
/// have the same time. If more than four entries have the latest time, only the last four are kept.
#[derive(Debug, Default)]
pub(super) struct Newest {
    time: Range<usize>,
    entries: [Entry; MOST],
    len: usize,
}

/// The positions of the strings in an entry, without quotes. The range of a missing string is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) manager: Range<usize>,
    pub(super) operation: Range<usize>,
    pub(super) subresource: Range<usize>,
    time: Range<usize>,
    pub(super) size: usize,
}

impl Newest {
    /// Reads `managedFields` and moves past it. Returns an empty result if the value has an unexpected form.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (begin, mut newest) = (*cursor, Self::default());
        let read = elements(cursor, [b'[', b']'], |cursor| {
            let entry = Entry::read(cursor)?;
            newest.add(entry, cursor.bytes());
            Some(())
        });
        if read.is_none() {
            *cursor = begin;
            cursor.skip_value()?;
            return Some(Self::default());
        }
        Some(newest)
    }

    fn add(&mut self, entry: Entry, json: &[u8]) {
        // Servers write all times in UTC with the same number of digits, so comparing the strings compares the times.
        let (newest, time) = (&json[self.time.clone()], &json[entry.time.clone()]);
        if self.len == 0 || time > newest {
            (self.time, self.len) = (entry.time.clone(), 0);
        } else if time < newest {
            return;
        }
        if self.len == MOST {
            self.entries.rotate_left(1);
            self.len -= 1;
        }
        self.entries[self.len] = entry;
        self.len += 1;
    }

    pub(super) fn time(&self) -> Range<usize> {
        self.time.clone()
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries[..self.len]
    }
}

impl Entry {
    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let mut entry = Self::default();
        elements(cursor, [b'{', b'}'], |cursor| {
            let name = cursor.text()?;
            cursor.skip_white();
            cursor.take(b':')?;
            cursor.skip_white();
            let text = match &cursor.bytes()[name] {
                b"manager" => &mut entry.manager,
                b"operation" => &mut entry.operation,
                b"subresource" => &mut entry.subresource,
                b"time" => &mut entry.time,
                b"fieldsV1" => {
                    let start = cursor.at();
                    cursor.skip_value()?;
                    entry.size = cursor.at() - start;
                    return Some(());
                }
                _ => return cursor.skip_value(),
            };
            *text = cursor.text()?;
            Some(())
        })?;
        Some(entry)
    }
}

/// Calls `read` for each element of the array or object between the brackets `open` and `close`. `read` must move past
/// the element.
fn elements<'a>(
    cursor: &mut Cursor<'a>,
    [open, close]: [u8; 2],
    mut read: impl FnMut(&mut Cursor<'a>) -> Option<()>,
) -> Option<()> {
    cursor.take(open)?;
    cursor.skip_white();
    if cursor.take(close).is_some() {
        return Some(());
    }
    loop {
        read(cursor)?;
        cursor.skip_white();
        if cursor.take(close).is_some() {
            return Some(());
        }
        cursor.take(b',')?;
        cursor.skip_white();
    }
}

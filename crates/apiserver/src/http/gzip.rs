//! Answers compressed: whole, or lists of which parts were compressed before.

use std::io::{self, Write};

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, FlushCompress};
use http::header::ACCEPT_ENCODING;

use super::Call;

/// Answers up to this size are sent as they are.
pub(super) const ZIPPED_FROM: usize = 128 * 1024;

/// What it takes to go through a part of a list again: little, of one as long as most are. Longer ones have a large object in them.
pub(super) fn weight(part: &[u8]) -> usize {
    if part.len() <= 2 * ZIPPED_FROM { 0 } else { part.len() }
}

/// Whether the client takes gzip, in the one spelling that counts.
pub(super) fn takes_gzip(call: &Call) -> bool {
    call.header(ACCEPT_ENCODING).split(',').any(|coding| coding.trim() == "gzip")
}

/// Bytes compressed, as one member.
pub(super) fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// One stream of gzip, each part of which is compressed for itself: it names nothing in those before. So a part can be one that others
/// were sent, and any client reads what comes, since there is but one member, of which some know no second.
#[derive(Debug)]
pub(super) struct Gzip {
    compress: Compress,
    /// Of all parts so far.
    sum: Hasher,
    length: u32,
    out: Vec<u8>,
}

/// A part behind what it takes to add it to a stream: its checksum and its length before it was compressed.
const SUMS: usize = 8;

impl Gzip {
    pub(super) fn new() -> Self {
        // Compressed fast, by whatever system, at no time, without a name.
        let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];
        let compress = Compress::new(Compression::fast(), false);
        Self { compress, sum: Hasher::new(), length: 0, out: header.into() }
    }

    /// Compresses a part.
    pub(super) fn add(&mut self, part: &[u8]) -> io::Result<()> {
        self.sum.update(part);
        self.length = self.length.wrapping_add(length(part));
        deflate(&mut self.compress, part, &mut self.out)
    }

    /// Compresses a part to be [added](Self::add_made), now or to other streams.
    pub(super) fn make(&mut self, part: &[u8]) -> io::Result<Vec<u8>> {
        let mut sum = Hasher::new();
        sum.update(part);
        let mut made = [sum.finalize().to_le_bytes(), length(part).to_le_bytes()].concat();
        deflate(&mut self.compress, part, &mut made)?;
        Ok(made)
    }

    /// Adds what [`make`](Self::make) has made.
    pub(super) fn add_made(&mut self, made: &[u8]) {
        let Some((sums, part)) = made.split_first_chunk::<SUMS>() else { return };
        let [a, b, c, d, length @ ..] = *sums;
        let length = u32::from_le_bytes(length);
        self.sum.combine(&Hasher::new_with_initial_len(u32::from_le_bytes([a, b, c, d]), length.into()));
        self.length = self.length.wrapping_add(length);
        self.out.extend_from_slice(part);
    }

    /// How much of it is to be sent.
    pub(super) fn ready(&self) -> usize {
        self.out.len()
    }

    /// What is to be sent of it so far.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The rest of it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // The last block, which is empty.
        self.out.extend([3, 0]);
        self.out.extend(self.sum.finalize().to_le_bytes());
        self.out.extend(self.length.to_le_bytes());
        self.out
    }
}

/// The length as gzip tells it, which counts no further than this.
fn length(part: &[u8]) -> u32 {
    part.len() as u32
}

/// Appends the part, compressed, up to a whole byte.
fn deflate(compress: &mut Compress, part: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
    compress.reset();
    let mut rest = part;
    loop {
        to.reserve(part.len() / 4 + 64);
        let before = compress.total_in();
        compress.compress_vec(rest, to, FlushCompress::Sync)?;
        rest = &rest[(compress.total_in() - before) as usize..];
        // Where there is room left, there is nothing left to be put there.
        if rest.is_empty() && to.len() < to.capacity() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn parts_that_were_compressed_before_and_others_are_one_member() {
        let mut random = fastrand::Rng::with_seed(1);
        let parts: Vec<Vec<u8>> = [0, 1, 63, 64, 65, 5_000, 300_000]
            .into_iter()
            .map(|length| {
                (0..length).map(|_| random.u8(b'a'..b'f')).chain(b"the same in all".repeat(length % 7)).collect()
            })
            .collect();
        let made: Vec<Vec<u8>> = parts.iter().map(|part| Gzip::new().make(part).expect("memory takes all")).collect();
        let mut gzip = Gzip::new();
        let (mut sent, mut plain) = (Vec::new(), Vec::new());
        for (part, made) in parts.iter().zip(&made) {
            for is_made in [false, true, true] {
                match is_made {
                    true => gzip.add_made(made),
                    false => gzip.add(part).expect("memory takes all"),
                }
                plain.extend_from_slice(part);
                sent.extend(gzip.take());
            }
        }
        sent.extend(gzip.finish());
        let mut read = Vec::new();
        let mut decoder = GzDecoder::new(&*sent);
        decoder.read_to_end(&mut read).expect("one member with the right sums");
        assert!(read == plain && decoder.into_inner().is_empty());
        assert!(sent.len() < plain.len() / 2, "{} of {}", sent.len(), plain.len());
    }
}

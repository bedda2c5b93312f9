//! Compresses responses. Segments of a list can be compressed in advance.

use std::io::{self, Write};

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::write::GzEncoder;
use flate2::{Compress, Compression, FlushCompress};

/// The length in bytes above which a response is compressed.
pub const GZIP_THRESHOLD: usize = 128 * 1024;

/// Returns the cost of compressing or copying a segment of an encoded list. The cost of a segment without large objects
/// is 0, so that the server does not offload it.
pub fn weight(part: &[u8]) -> usize {
    if part.len() <= 2 * GZIP_THRESHOLD { 0 } else { part.len() }
}

/// Returns `true` if the `Accept-Encoding` header accepts `gzip`, in lower case.
pub fn accepts_gzip(accept_encoding: &str) -> bool {
    accept_encoding.split(',').any(|coding| coding.trim() == "gzip")
}

/// Compresses bytes as a single gzip member.
pub fn gzip(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// A gzip stream of segments that are compressed independently. A segment does not refer to the data of earlier
/// segments, so a compressed segment can be part of several streams. The stream is a single gzip member, because some
/// clients ignore all members after the first member.
#[derive(Debug)]
pub struct Gzip {
    compress: Compress,
    sum: Hasher,
    length: u32,
    out: Vec<u8>,
}

/// The size of the header of a precompressed segment, in bytes. The header contains the checksum and the length of the
/// uncompressed data.
const SUMS: usize = 8;

impl Default for Gzip {
    fn default() -> Self {
        // A gzip header without a time and a file name, for the fastest compression and an unknown operating system.
        let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];
        let compress = Compress::new(Compression::fast(), false);
        Self { compress, sum: Hasher::new(), length: 0, out: header.into() }
    }
}

impl Gzip {
    /// Compresses a segment and appends it to the stream.
    pub fn add(&mut self, part: &[u8]) -> io::Result<()> {
        self.sum.update(part);
        self.length = self.length.wrapping_add(length(part));
        deflate(&mut self.compress, part, &mut self.out)
    }

    /// Compresses a segment in advance, for use in several streams with [`add_precompressed`](Self::add_precompressed).
    pub fn precompress(&mut self, part: &[u8]) -> io::Result<Vec<u8>> {
        let mut sum = Hasher::new();
        sum.update(part);
        let mut precompressed = [sum.finalize().to_le_bytes(), length(part).to_le_bytes()].concat();
        deflate(&mut self.compress, part, &mut precompressed)?;
        Ok(precompressed)
    }

    /// Appends a segment that was returned by [`precompress`](Self::precompress).
    pub fn add_precompressed(&mut self, precompressed: &[u8]) {
        let Some((sums, part)) = precompressed.split_first_chunk::<SUMS>() else { return };
        let [a, b, c, d, length @ ..] = *sums;
        let length = u32::from_le_bytes(length);
        self.sum.combine(&Hasher::new_with_initial_len(u32::from_le_bytes([a, b, c, d]), length.into()));
        self.length = self.length.wrapping_add(length);
        self.out.extend_from_slice(part);
    }

    /// Returns the number of compressed bytes that are ready to be sent.
    pub fn ready(&self) -> usize {
        self.out.len()
    }

    /// Removes and returns the compressed bytes that are ready to be sent.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Ends the stream and returns the remaining bytes.
    pub fn finish(mut self) -> Vec<u8> {
        // Write an empty block as the final block of the stream.
        self.out.extend([3, 0]);
        self.out.extend(self.sum.finalize().to_le_bytes());
        self.out.extend(self.length.to_le_bytes());
        self.out
    }
}

/// Returns the length modulo 2^32, which is its form in the gzip trailer.
fn length(part: &[u8]) -> u32 {
    part.len() as u32
}

/// Compresses a segment, pads it to a byte boundary, and appends it to `to`.
fn deflate(compress: &mut Compress, part: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
    compress.reset();
    let mut rest = part;
    loop {
        to.reserve(part.len() / 4 + 64);
        let before = compress.total_in();
        compress.compress_vec(rest, to, FlushCompress::Sync)?;
        rest = &rest[(compress.total_in() - before) as usize..];
        // Free space in the output buffer means that the compressor has written all of its output.
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
    fn precompressed_and_new_parts_form_one_member() {
        let mut random = fastrand::Rng::with_seed(1);
        let parts: Vec<Vec<u8>> = [0, 1, 63, 64, 65, 5_000, 300_000]
            .into_iter()
            .map(|length| {
                (0..length).map(|_| random.u8(b'a'..b'f')).chain(b"the same in all".repeat(length % 7)).collect()
            })
            .collect();
        let compressed: Vec<Vec<u8>> =
            parts.iter().map(|part| Gzip::default().precompress(part).expect("writes to memory succeed")).collect();
        let mut gzip = Gzip::default();
        let (mut sent, mut plain) = (Vec::new(), Vec::new());
        for (part, compressed) in parts.iter().zip(&compressed) {
            for is_precompressed in [false, true, true] {
                if is_precompressed {
                    gzip.add_precompressed(compressed)
                } else {
                    gzip.add(part).expect("writes to memory succeed")
                }
                plain.extend_from_slice(part);
                sent.extend(gzip.take());
            }
        }
        sent.extend(gzip.finish());
        let mut read = Vec::new();
        let mut decoder = GzDecoder::new(&*sent);
        decoder.read_to_end(&mut read).expect("the stream is one gzip member with valid checksums");
        assert!(read == plain && decoder.into_inner().is_empty());
        assert!(sent.len() < plain.len() / 2, "{} of {}", sent.len(), plain.len());
    }
}

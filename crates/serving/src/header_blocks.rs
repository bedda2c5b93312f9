//! Tracks the memory of incomplete HTTP/2 header blocks. hyper does not report the size of these blocks, so this module
//! computes it from the frames.

use super::heads::HEADER;

/// The first bytes that a client sends on an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;

const HEADERS: u8 = 1;
/// A frame type that clients must not send, but that hyper rejects only after the end of the header block.
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The maximum memory estimate for a header block, in bytes. A header block of maximum size with the shortest possible
/// headers uses this much memory.
const LARGEST_BLOCK: usize = 2 << 20;

/// A parser for the HTTP/2 frames of a connection.
#[derive(Debug)]
pub enum HeaderBlocks {
    /// The HTTP/2 preface is incomplete. The field is the number of bytes that have arrived.
    Preface(usize),
    /// The connection is not HTTP/2.
    Other,
    /// The connection is HTTP/2.
    Http2(Frames),
}

/// A frame parser that tracks only header blocks.
#[derive(Debug, Default)]
pub struct Frames {
    head: [u8; FRAME_HEAD],
    /// The number of bytes of the current frame header that have arrived so far.
    head_length: usize,
    /// The number of payload bytes that have not arrived yet.
    left: usize,
    begun: u64,
    /// The total size in bytes of the complete frames of an incomplete header block, or `None` if the last block is
    /// complete.
    open: Option<usize>,
    /// The highest stream ID that the client has used. A header block for this or a lower ID contains trailers.
    last_stream: u32,
    is_trailers: bool,
    /// The memory of trailers in bytes, which stay in memory if the handler does not read them. The number is reset to
    /// 0 when the connection has no open requests.
    trailers: usize,
}

impl Default for HeaderBlocks {
    fn default() -> Self {
        Self::Preface(0)
    }
}

impl HeaderBlocks {
    /// Parses received bytes, and returns the frame parser if the connection is HTTP/2.
    pub fn read(&mut self, mut bytes: &[u8]) -> Option<&mut Frames> {
        if let Self::Preface(received) = self {
            let rest = &PREFACE[*received..];
            let length = rest.len().min(bytes.len());
            *self = match bytes[..length] == rest[..length] {
                false => Self::Other,
                true if length == rest.len() => Self::Http2(Frames::default()),
                true => Self::Preface(*received + length),
            };
            bytes = &bytes[length..];
        }
        let Self::Http2(frames) = self else { return None };
        frames.read(bytes);
        Some(frames)
    }
}

impl Frames {
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let length = self.left.min(bytes.len());
                self.left -= length;
                bytes = &bytes[length..];
            } else {
                let length = (FRAME_HEAD - self.head_length).min(bytes.len());
                self.head[self.head_length..][..length].copy_from_slice(&bytes[..length]);
                self.head_length += length;
                bytes = &bytes[length..];
                if self.head_length < FRAME_HEAD {
                    return;
                }
                self.begin();
            }
            if self.left == 0 {
                self.end();
            }
        }
    }

    fn begin(&mut self) {
        let [_, _, _, kind, _, stream @ ..] = self.head;
        (self.head_length, self.left) = (0, self.length());
        if !matches!(kind, HEADERS | PUSH_PROMISE) {
            return;
        }
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        self.is_trailers = stream <= self.last_stream;
        self.last_stream = self.last_stream.max(stream);
        self.begun += 1;
        self.open = Some(0);
    }

    fn end(&mut self) {
        let [_, _, _, kind, flags, ..] = self.head;
        let Some(open) = self.open.filter(|_| matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION)) else { return };
        let size = open + FRAME_HEAD + self.length();
        let is_over = flags & END_HEADERS != 0;
        if is_over && self.is_trailers {
            self.trailers = self.trailers.saturating_add(memory(size));
        }
        self.open = (!is_over).then_some(size);
    }

    fn length(&self) -> usize {
        let [a, b, c, ..] = self.head;
        u32::from_be_bytes([0, a, b, c]) as usize
    }

    /// Returns the sequence number of the incomplete header block, if there is one.
    pub fn open(&self) -> Option<u64> {
        self.open.map(|_| self.begun)
    }

    /// Returns the estimated memory of all header blocks that hyper has not passed on as requests yet. The result does
    /// not include an incomplete frame, which has at most 16 KiB.
    pub fn memory(&self) -> usize {
        self.open.map_or(0, memory).saturating_add(self.trailers)
    }

    /// Resets the memory of trailers, which is necessary when the connection has no open requests.
    pub fn forget_trailers(&mut self) {
        self.trailers = 0;
    }
}

/// Returns the estimated memory of a header block with `bytes` bytes. The estimate is high, because a single byte can
/// refer to a whole header in the HPACK table.
fn memory(bytes: usize) -> usize {
    bytes.saturating_mul(HEADER).min(LARGEST_BLOCK)
}

/// Asserts, as a fuzz target, that splitting the bytes into reads does not change the result.
pub fn fuzz(bytes: &[u8]) {
    let state_after = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut blocks = HeaderBlocks::default();
        pieces.map(|piece| blocks.read(piece).map(|frames| (frames.open(), frames.memory()))).last().flatten()
    };
    let whole = state_after(&mut [bytes].into_iter());
    assert_eq!(state_after(&mut bytes.chunks(1)), whole, "byte by byte");
    for at in 0..bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(state_after(&mut [first, second].into_iter()), whole, "split at {at}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, length: usize) -> Vec<u8> {
        let [.., a, b, c] = length.to_be_bytes();
        [vec![a, b, c, kind, flags, 0, 0, 0, stream], vec![1; length]].concat()
    }

    fn state_after(frames: &[Vec<u8>]) -> Option<(Option<u64>, usize)> {
        let bytes = [PREFACE.to_vec(), frames.concat()].concat();
        fuzz(&bytes);
        HeaderBlocks::default().read(&bytes).map(|frames| (frames.open(), frames.memory()))
    }

    #[test]
    fn header_block_is_open_until_end_headers() {
        let settings = || frame(4, 0, 0, 12);
        let opened = |length: usize| frame(HEADERS, 0, 3, length);
        let more = |length: usize| frame(CONTINUATION, 0, 3, length);
        let cut = |mut frame: Vec<u8>| {
            frame.pop();
            frame
        };
        let of = |lengths: &[usize]| lengths.iter().map(|length| (length + FRAME_HEAD) * HEADER).sum::<usize>();
        for (frames, expected) in [
            (vec![settings()], (None, 0)),
            (vec![settings(), frame(HEADERS, END_HEADERS, 1, 30)], (None, 0)),
            (vec![cut(frame(HEADERS, END_HEADERS, 1, 30))], (Some(1), 0)),
            (vec![opened(30)], (Some(1), of(&[30]))),
            (vec![opened(0), more(0), more(300)], (Some(1), of(&[0, 0, 300]))),
            (vec![opened(30), more(60), cut(more(90))], (Some(1), of(&[30, 60]))),
            (vec![opened(60_000)], (Some(1), LARGEST_BLOCK)),
            (vec![frame(PUSH_PROMISE, 0, 3, 30)], (Some(1), of(&[30]))),
            (vec![opened(30), frame(CONTINUATION, END_HEADERS, 3, 30)], (None, 0)),
            (vec![frame(HEADERS, END_HEADERS, 1, 30), frame(0, 0, 1, 50), opened(10)], (Some(2), of(&[10]))),
            // Trailers are counted until their HTTP/2 stream ends.
            (vec![frame(HEADERS, END_HEADERS, 1, 30), frame(HEADERS, END_HEADERS | 1, 1, 7)], (None, of(&[7]))),
            (vec![frame(HEADERS, END_HEADERS, 3, 30), frame(HEADERS, 0, 1, 7)], (Some(2), of(&[7]))),
        ] {
            assert_eq!(state_after(&frames), Some(expected), "{frames:?}");
        }
    }

    #[test]
    fn other_protocols_have_no_frames() {
        let mut blocks = HeaderBlocks::default();
        for piece in [&b"PRI "[..], b"/version HTTP/1.1\r\n", PREFACE] {
            assert!(blocks.read(piece).is_none());
        }
    }

    #[test]
    fn trailers_can_be_forgotten() {
        let mut blocks = HeaderBlocks::default();
        blocks.read(PREFACE);
        let opened = [frame(HEADERS, END_HEADERS, 1, 1), frame(HEADERS, END_HEADERS, 1, 20)].concat();
        let frames = blocks.read(&opened).expect("HTTP/2");
        frames.forget_trailers();
        assert_eq!(frames.memory(), 0);
    }
}

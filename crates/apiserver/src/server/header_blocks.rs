//! The blocks of headers of HTTP/2 as they come, beside whatever else is open on their connection. One that has not ended is kept by nobody
//! who could be asked for it, so that what it takes is read off the frames.

use super::heads::HEADER;

/// What the client of a connection of HTTP/2 sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD: usize = 9;

const HEADERS: u8 = 1;
/// No client may send it, which is found out only once its block has ended.
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// What one block takes at most: as many of the shortest headers as there may be.
const LARGEST_BLOCK: usize = 2 << 20;

/// Follows the frames of a connection.
#[derive(Debug)]
pub(super) enum HeaderBlocks {
    /// So much of the preface has come.
    Preface(usize),
    /// It is no connection of HTTP/2.
    None,
    Of(Frames),
}

/// The frames of a connection, as far as they carry headers.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; FRAME_HEAD],
    /// So much of the head of a frame has come.
    head_length: usize,
    /// So much of its payload is yet to come.
    left: usize,
    /// The blocks that have begun so far.
    begun: u64,
    /// Of the last of these, if it has not ended, the bytes of the frames that have come in full.
    open: Option<usize>,
    /// The stream that was opened last. What comes later on one of those before are trailers.
    last_stream: u32,
    is_trailers: bool,
    /// What trailers take that have come since nothing was open. Nobody may ever read them.
    trailers: usize,
}

impl HeaderBlocks {
    pub(super) fn new() -> Self {
        Self::Preface(0)
    }

    /// These bytes have come. Answers with the frames, if there are such.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Option<&mut Frames> {
        if let Self::Preface(come) = self {
            let rest = &PREFACE[*come..];
            let length = rest.len().min(bytes.len());
            *self = match bytes[..length] == rest[..length] {
                false => Self::None,
                true if length == rest.len() => Self::Of(Frames::default()),
                true => Self::Preface(*come + length),
            };
            bytes = &bytes[length..];
        }
        let Self::Of(frames) = self else { return None };
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

    /// The head of a frame has come.
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

    /// A frame has come in full.
    fn end(&mut self) {
        let [_, _, _, kind, flags, ..] = self.head;
        let Some(open) = self.open.filter(|_| matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION)) else { return };
        let come = open + FRAME_HEAD + self.length();
        let is_over = flags & END_HEADERS != 0;
        if is_over && self.is_trailers {
            self.trailers = self.trailers.saturating_add(weight(come));
        }
        self.open = (!is_over).then_some(come);
    }

    fn length(&self) -> usize {
        let [a, b, c, ..] = self.head;
        u32::from_be_bytes([0, a, b, c]) as usize
    }

    /// The block that has begun and not ended, if there is one, by its number.
    pub(super) fn open(&self) -> Option<u64> {
        self.open.map(|_| self.begun)
    }

    /// What is kept of blocks that no request tells of. The part of a frame that has come, 16 KiB at most, is not in it.
    pub(super) fn weight(&self) -> usize {
        self.open.map_or(0, weight).saturating_add(self.trailers)
    }

    /// Nothing is open any more: what came with it is gone.
    pub(super) fn forget_trailers(&mut self) {
        self.trailers = 0;
    }
}

/// What so many bytes of a block may take: a byte may stand for a header that is known from before.
fn weight(bytes: usize) -> usize {
    bytes.saturating_mul(HEADER).min(LARGEST_BLOCK)
}

/// What fuzzing puts the bytes of a connection through.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let come = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut blocks = HeaderBlocks::new();
        pieces.map(|piece| blocks.read(piece).map(|frames| (frames.open(), frames.weight()))).last().flatten()
    };
    let whole = come(&mut [bytes].into_iter());
    assert_eq!(come(&mut bytes.chunks(1)), whole, "byte by byte");
    for at in 0..bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(come(&mut [first, second].into_iter()), whole, "cut at {at}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, length: usize) -> Vec<u8> {
        let [.., a, b, c] = length.to_be_bytes();
        [vec![a, b, c, kind, flags, 0, 0, 0, stream], vec![1; length]].concat()
    }

    /// The block that is open, and the weight, once this has come.
    fn come(frames: &[Vec<u8>]) -> Option<(Option<u64>, usize)> {
        let bytes = [PREFACE.to_vec(), frames.concat()].concat();
        fuzz(&bytes);
        HeaderBlocks::new().read(&bytes).map(|frames| (frames.open(), frames.weight()))
    }

    #[test]
    fn a_block_is_open_from_its_first_frame_to_its_last_and_weighs_what_its_bytes_may_stand_for() {
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
            // Trailers are kept with their stream.
            (vec![frame(HEADERS, END_HEADERS, 1, 30), frame(HEADERS, END_HEADERS | 1, 1, 7)], (None, of(&[7]))),
            (vec![frame(HEADERS, END_HEADERS, 3, 30), frame(HEADERS, 0, 1, 7)], (Some(2), of(&[7]))),
        ] {
            assert_eq!(come(&frames), Some(expected), "{frames:?}");
        }
    }

    #[test]
    fn other_protocols_have_none() {
        let mut blocks = HeaderBlocks::new();
        for piece in [&b"PRI "[..], b"/version HTTP/1.1\r\n", PREFACE] {
            assert!(blocks.read(piece).is_none());
        }
    }

    #[test]
    fn trailers_are_forgotten_with_what_they_came_with() {
        let mut blocks = HeaderBlocks::new();
        blocks.read(PREFACE);
        let opened = [frame(HEADERS, END_HEADERS, 1, 1), frame(HEADERS, END_HEADERS, 1, 20)].concat();
        let frames = blocks.read(&opened).expect("HTTP/2");
        frames.forget_trailers();
        assert_eq!(frames.weight(), 0);
    }
}

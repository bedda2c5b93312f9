//! A compressor for texts of a few kilobytes that are similar to earlier texts. The compressor uses LZ77 with a
//! dictionary that is hashed only once.
//!
//! Two features make the format suitable for API objects. The values of a field often have the same length in different
//! objects. Therefore, the text after a changed field is copied from the same distance as the text before it, which
//! takes only one byte. Two hexadecimal digits, as in uids and digests, are stored in one byte.
//!
//! The compressed data is a sequence of items. An item's first byte determines its type and its length n:
//!
//! | first byte | minimum n | the item |
//! |---|---|---|
//! | 0 to 47 | 1 | n literal bytes, which follow |
//! | 48 to 79 | 4 | 2n hexadecimal digits, two in each of n bytes |
//! | 80 to 143 | 2 | a copy of n bytes, at the last copy's distance |
//! | 144 to 255 | 5 | a copy of n bytes; two bytes with the distance follow |
//!
//! If a copy has the maximum n, a number follows the first byte, and the length of the copy is n plus this number. The
//! number is encoded with seven bits per byte, least significant bits first.

const HEX: u8 = 48;
const AGAIN: u8 = 80;
const COPY: u8 = 144;

const MIN_HEX: usize = 4;
const MAX_HEX: usize = (AGAIN - HEX) as usize - 1 + MIN_HEX;
const MIN_AGAIN: usize = 2;
const MIN_COPY: usize = 5;

/// The maximum distance between a copy and its source.
const WINDOW: usize = u16::MAX as usize;

/// Maps a hash of [`MIN_COPY`] bytes to the last recorded position of bytes with this hash.
#[derive(Clone)]
pub(super) struct Places {
    /// Each entry is a position plus one, or 0 if there is no recorded position.
    places: Box<[u32]>,
    shift: u32,
}

impl Places {
    pub(super) fn new(bits: u32) -> Self {
        Self { places: vec![0; 1 << bits].into(), shift: u64::BITS - bits }
    }

    /// Records the position `at`, and returns the previously recorded position with the same hash. The bytes at the
    /// returned position may differ from the bytes at `at`.
    pub(super) fn enter(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let slot = self.slot(text, at)?;
        let before = std::mem::replace(&mut self.places[slot], at as u32 + 1);
        (before as usize).checked_sub(1)
    }

    fn find(&self, text: &[u8], at: usize) -> Option<usize> {
        (self.places[self.slot(text, at)?] as usize).checked_sub(1)
    }

    fn slot(&self, text: &[u8], at: usize) -> Option<usize> {
        let &[a, b, c, d, e] = text.get(at..)?.first_chunk::<MIN_COPY>()?;
        let hash = u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Some((hash >> self.shift) as usize)
    }
}

/// Compresses the bytes of `text` after `begin`. The first `dictionary` bytes of `text` are a dictionary, and `known`
/// contains the positions in the dictionary. Copies may also refer to the bytes between the end of the dictionary and
/// `begin`.
pub(super) fn compress(text: &[u8], known: &Places, dictionary: usize, begin: usize) -> Vec<u8> {
    let mut own = Places::new(12);
    (dictionary..begin).for_each(|at| _ = own.enter(text, at));
    let mut out = Vec::with_capacity((text.len() - begin) / 4);
    // `out` contains the compressed form of the text before `done`.
    let (mut done, mut at, mut distance) = (begin, begin, usize::MAX);
    while at < text.len() {
        let again = at.checked_sub(distance).map_or(0, |from| common(text, from, at));
        // Bytes between `done` and `at` need a separate item, which costs one byte.
        let length = if again >= MIN_AGAIN + usize::from(done < at) {
            put_bytes(&text[done..at], &mut out);
            put_length(AGAIN, COPY - 1, again - MIN_AGAIN, &mut out);
            again
        } else if let Some((length, from)) = longest(text, at, [own.enter(text, at), known.find(text, at)]) {
            let before = text[done..at].iter().rev().zip(text[..from].iter().rev()).take_while(|(a, b)| a == b).count();
            put_bytes(&text[done..at - before], &mut out);
            put_length(COPY, u8::MAX, before + length - MIN_COPY, &mut out);
            distance = at - from;
            out.extend_from_slice(&(distance as u16).to_le_bytes());
            length
        } else {
            // No copy was found, so increase the step size of the search, because the remaining data may be
            // incompressible.
            at += 1 + (at - done) / 32;
            continue;
        };
        // Recording every third position is enough to find this text again.
        (at..at + length).step_by(3).for_each(|at| _ = own.enter(text, at));
        at += length;
        done = at;
    }
    put_bytes(&text[done..], &mut out);
    out
}

/// Decompresses `data` to `length` bytes, and appends them to `text`. `text` must end with the bytes that preceded the
/// text during compression. Returns `None` if `data` is invalid.
pub(super) fn decompress(mut data: &[u8], length: usize, text: &mut Vec<u8>) -> Option<()> {
    let end = text.len() + length;
    let mut distance = 0;
    while let Some(first) = take(&mut data) {
        let fits = |n: usize| (n <= end - text.len()).then_some(n);
        match first {
            ..HEX => {
                let (bytes, rest) = data.split_at_checked(fits(usize::from(first) + 1)?)?;
                text.extend_from_slice(bytes);
                data = rest;
            }
            HEX..AGAIN => {
                let digits = fits(2 * (usize::from(first - HEX) + MIN_HEX))?;
                let (bytes, rest) = data.split_at_checked(digits / 2)?;
                let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                text.extend(digits.map(|digit| b"0123456789abcdef"[usize::from(digit)]));
                data = rest;
            }
            AGAIN.. => {
                let length = if first < COPY {
                    take_length(first, AGAIN, COPY - 1, &mut data)? + MIN_AGAIN
                } else {
                    let length = take_length(first, COPY, u8::MAX, &mut data)? + MIN_COPY;
                    distance = usize::from(u16::from_le_bytes([take(&mut data)?, take(&mut data)?]));
                    length
                };
                let from = text.len().checked_sub(distance)?;
                match fits(length)? {
                    length if length <= distance => text.extend_from_within(from..from + length),
                    _ if distance == 0 => return None,
                    // The source of a copy may include bytes that the same copy appends, so copy byte by byte.
                    length => (from..from + length).for_each(|at| text.push(text[at])),
                }
            }
        }
    }
    (text.len() == end).then_some(())
}

fn longest(text: &[u8], at: usize, places: [Option<usize>; 2]) -> Option<(usize, usize)> {
    let in_reach = places.into_iter().flatten().filter(|from| at - from <= WINDOW);
    in_reach.map(|from| (common(text, from, at), from)).max().filter(|&(length, _)| length >= MIN_COPY)
}

/// Returns the length of the common prefix of the bytes at `from` and at `at`, where `from` is the earlier position.
fn common(text: &[u8], from: usize, at: usize) -> usize {
    let (earlier, later) = (&text[from..from + text.len() - at], &text[at..]);
    let (words, rest) = later.as_chunks::<8>();
    let mut length = 0;
    for (word, earlier) in words.iter().zip(earlier.as_chunks::<8>().0) {
        let differs = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*earlier);
        if differs != 0 {
            return length + differs.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + rest.iter().zip(&earlier[length..]).take_while(|(a, b)| a == b).count()
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut done, mut at) = (0, 0);
    while at < bytes.len() {
        let digits = bytes[at..].iter().map_while(|&byte| digit(byte)).count() / 2 * 2;
        if digits < 2 * MIN_HEX {
            at += digits.max(1);
            continue;
        }
        put_plain(&bytes[done..at], out);
        for some in bytes[at..at + digits].chunks(2 * MAX_HEX) {
            let Some(n) = (some.len() / 2).checked_sub(MIN_HEX) else {
                put_plain(some, out);
                continue;
            };
            out.push(HEX + n as u8);
            let pairs = some.as_chunks().0.iter().map(|&[high, low]| (digit(high), digit(low)));
            out.extend(pairs.map(|(high, low)| high.unwrap_or(0) << 4 | low.unwrap_or(0)));
        }
        at += digits;
        done = at;
    }
    put_plain(&bytes[done..], out);
}

fn put_plain(bytes: &[u8], out: &mut Vec<u8>) {
    for some in bytes.chunks(usize::from(HEX)) {
        out.push(some.len() as u8 - 1);
        out.extend_from_slice(some);
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn put_length(least: u8, greatest: u8, n: usize, out: &mut Vec<u8>) {
    let Some(mut more) = n.checked_sub(usize::from(greatest - least)) else { return out.push(least + n as u8) };
    out.push(greatest);
    while more >= 0x80 {
        out.push(more as u8 | 0x80);
        more >>= 7;
    }
    out.push(more as u8);
}

fn take_length(first: u8, least: u8, greatest: u8, data: &mut &[u8]) -> Option<usize> {
    let mut length = usize::from(first - least);
    if first < greatest {
        return Some(length);
    }
    for shift in (0..35).step_by(7) {
        let byte = take(data)?;
        length += usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(length);
        }
    }
    None
}

fn take(data: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = data.split_first()?;
    *data = rest;
    Some(first)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn places(dictionary: &[u8]) -> Places {
        let mut places = Places::new(14);
        (0..dictionary.len()).for_each(|at| _ = places.enter(dictionary, at));
        places
    }

    /// Checks that decompression restores the original text. Returns the compressed size in bytes.
    #[track_caller]
    fn round_trip(dictionary: &str, head: &str, text: &str) -> usize {
        let all = [dictionary, head, text].concat();
        let begin = all.len() - text.len();
        let compressed = compress(all.as_bytes(), &places(dictionary.as_bytes()), dictionary.len(), begin);
        let mut back = all.as_bytes()[..begin].to_vec();
        assert_eq!(decompress(&compressed, text.len(), &mut back), Some(()));
        assert_eq!(back, all.as_bytes());
        compressed.len()
    }

    #[test]
    fn known_text_compresses_to_a_few_bytes() {
        let known = r#"{"kind":"Pod","created":"2026-08-05","phase":"Running"}"#;
        assert_eq!(round_trip(known, "", known), 3);
        assert_eq!(round_trip("", known, known), 3);
        // If only a date differs, the compressed text consists of a copy, the ten bytes of the date, and a second copy.
        let other = known.replace("2026-08-05", "1999-12-31");
        assert_eq!(round_trip(known, "", &other), 3 + 1 + 10 + 1);
        assert_eq!(round_trip("", "", &"a".repeat(1000)), 1 + 1 + 1 + 2 + 2);
        assert_eq!(round_trip("", "", ""), 0);
    }

    #[test]
    fn digests_compress_to_half_their_size() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(round_trip("", "", digest), 1 + 32);
        for digits in 0..digest.len() {
            round_trip("", "", &digest[..digits]);
        }
    }

    #[test]
    fn text_beyond_the_window_is_not_copied() {
        let mut random = fastrand::Rng::with_seed(1);
        let letters: String = (0..101).map(|_| random.uppercase()).collect();
        let far = letters + &"-".repeat(WINDOW - 100);
        assert_eq!(round_trip(&far, "", &far[1..101]), 3);
        assert!(round_trip(&far, "", &far[..8]) > 3);
    }

    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[0-9a-f]{1,90}",
            ".{0,9}",
            proptest::sample::select(vec![r#""namespace":"a""#, r#""status":"True","#, "zzzzzzzz", "T08:30:07Z"])
                .prop_map(str::to_owned),
            (0_usize..3000).prop_map(|n| "far ".repeat(n / 100 * 100)),
        ];
        vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_round_trips(dictionary in text(), head in text(), text in text()) {
            round_trip(&dictionary, &head, &text);
        }

        /// Arbitrary input never causes a panic, and the output is never longer than the requested length.
        #[test]
        fn arbitrary_data_is_rejected_or_bounded(before in vec(any::<u8>(), 0..50), data in vec(any::<u8>(), 0..200), length in 0_usize..500) {
            let mut text = before.clone();
            let whole = decompress(&data, length, &mut text).is_some();
            prop_assert!(text.starts_with(&before) && text.len() <= before.len() + length);
            prop_assert_eq!(whole && text.len() != before.len() + length, false);
        }

        #[test]
        fn damaged_data_is_rejected_or_has_the_length(text in text(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut data = compress(text.as_bytes(), &Places::new(14), 0, 0);
            if !data.is_empty() {
                let at = at.index(data.len());
                data[at] = byte;
                let mut back = Vec::new();
                let whole = decompress(&data, text.len(), &mut back);
                prop_assert!(whole.is_none() || back.len() == text.len());
            }
        }
    }
}

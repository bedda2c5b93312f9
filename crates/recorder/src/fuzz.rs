//! Checks that arbitrary bytes do not break the reading and writing of recordings. The fuzz target in `crates/fuzz/`
//! and the test in this file use this check. The check panics if it fails.

#![allow(clippy::unwrap_used, reason = "a failed check panics")]

use crate::line::Line;

/// Checks that each readable line of a recording is unchanged after it is written and read again.
pub fn recording(mut bytes: &[u8]) {
    while let Ok(Some(line)) = Line::read(&mut bytes) {
        let written = line.bytes();
        assert_eq!(Line::read(&mut &written[..]).unwrap(), Some(line));
    }
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    #[test]
    fn recording_fuzz_corpus_passes() {
        replay_corpus(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/recording"), 1_000, recording);
    }
}

//! Tests parsers with inputs from files, and with random mutations of these inputs.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::thread;

/// Calls `check` with the content of each file in `folder`, and then with random mutations of the contents. Use this
/// function to test parsers of untrusted bytes. `check` must panic if it finds a bug. After such a panic,
/// `replay_corpus` prints the input and the name of the original file.
///
/// The mutations are the same in each run, so the result of a test is reproducible. The environment variable
/// `PINTLE_MUTATIONS` sets the number of mutations. `check` runs on a thread with a 2 MiB stack, the default for new
/// threads, so that the test result does not depend on the stack size of the test thread. A stack overflow in `check`
/// ends the process.
///
/// # Examples
///
/// ```
/// use pintle_testing::replay_corpus;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # std::fs::write(folder.path().join("list"), r#"[1, 2, {"a": null}]"#).unwrap();
/// # let folder = folder.path();
/// replay_corpus(folder, 1_000, |bytes| {
///     if let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) {
///         let again: serde_json::Value = serde_json::from_str(&value.to_string()).unwrap();
///         assert_eq!(again, value);
///     }
/// });
/// ```
///
/// # Panics
///
/// Panics if `check` panics, if `folder` cannot be read or contains no files, or if the thread cannot be started.
pub fn replay_corpus(folder: impl AsRef<Path>, mutations: u32, check: impl Fn(&[u8]) + Send) {
    let folder = folder.as_ref();
    let replayed = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(2 << 20);
        thread.spawn_scoped(scope, || replay(folder, mutations, check)).expect("a thread").join()
    });
    replayed.unwrap_or_else(|panic| resume_unwind(panic));
}

#[allow(clippy::print_stderr, reason = "output of a failed test")]
fn replay(folder: &Path, mutations: u32, check: impl Fn(&[u8])) {
    let corpus = files(folder);
    assert!(!corpus.is_empty(), "{} contains no file", folder.display());
    let mutations = std::env::var("PINTLE_MUTATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(mutations);
    let run = |input: &[u8], origin: &dyn Fn() -> String| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(input))) {
            eprintln!("{}: b\"{}\"", origin(), input.escape_ascii());
            resume_unwind(panic);
        }
    };
    for (path, input) in &corpus {
        run(input, &|| path.display().to_string());
    }
    let mut random = Random(0x7069_6e74_6c65);
    for nth in 0..mutations {
        let (path, input) = &corpus[random.below(corpus.len())];
        let mut input = input.clone();
        for _ in 0..=random.below(4) {
            let other = &corpus[random.below(corpus.len())].1;
            mutate(&mut input, other, &mut random);
        }
        run(&input, &|| format!("{} changed, input {nth}", path.display()));
    }
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let fault = |error: std::io::Error| -> ! { panic!("{}: {error}", folder.display()) };
    let entries = fs::read_dir(folder).unwrap_or_else(|error| fault(error));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap_or_else(|error| fault(error)).path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let input = fs::read(&path).unwrap_or_else(|error| fault(error));
        (path, input)
    };
    paths.into_iter().map(read).collect()
}

/// Characters with a special meaning in common formats, for use in mutations.
const SIGNIFICANT: &[u8] = b"{}[]()<>\"'`\\,:;=&*!|%@#-+._/~ \t\r\n0129aAeEnu\0\x7f\x80\xc3\xe2\xf0\xff";

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let piece = |from: &[u8], random: &mut Random| {
        let start = random.below(from.len() + 1);
        let length = random.below((from.len() - start).min(24) + 1);
        from[start..start + length].to_vec()
    };
    match random.below(6) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = SIGNIFICANT[random.below(SIGNIFICANT.len())],
        2 => input.insert(at, SIGNIFICANT[random.below(SIGNIFICANT.len())]),
        3 => {
            let end = (at + random.below(16)).min(input.len());
            input.drain(at..end);
        }
        4 => {
            let piece = piece(other, random);
            input.splice(at..at, piece);
        }
        _ => {
            let piece = piece(input, random).repeat(1 + random.below(8));
            input.splice(at..at, piece);
        }
    }
}

struct Random(u64);

impl Random {
    /// Returns a number below `end`, which must be at least 1.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % end as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn corpus_files_and_deterministic_mutations_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "second").unwrap();
        fs::write(folder.path().join("a"), "first").unwrap();
        let run = || {
            let seen = Mutex::new(Vec::new());
            replay_corpus(folder.path(), 200, |input| seen.lock().unwrap().push(input.to_vec()));
            seen.into_inner().unwrap()
        };
        let seen = run();
        assert_eq!(seen[..2], [b"first".to_vec(), b"second".to_vec()]);
        assert!(seen.iter().collect::<BTreeSet<_>>().len() > 150, "most mutations are different");
        assert_eq!(seen, run());
    }

    #[test]
    #[should_panic(expected = "a bug")]
    fn panic_of_the_check_fails_the_test() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "first").unwrap();
        replay_corpus(folder.path(), 1_000, |input| assert!(!input.contains(&0xff), "a bug"));
    }
}

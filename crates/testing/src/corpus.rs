//! Inputs from files, and what comes of changing them at random.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::thread;

/// Puts inputs through what reads bytes from outside: first each file of a folder, then as many changed ones. `check` panics at what
/// must not be; the input is printed then, with where it came from.
///
/// What is changed, and how, is the same in each run, so a test of it fails always or never. The variable `PINTLE_MUTATIONS` takes
/// another number of inputs, for a longer look. All of it runs on a thread with 2 MiB of stack, as threads have by default, whatever the
/// thread of the test has: what recurses too deeply ends the process.
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
/// As `check` does; if the folder cannot be read or holds no file; and if there is no thread to be had.
pub fn replay_corpus(folder: impl AsRef<Path>, mutations: u32, check: impl Fn(&[u8]) + Send) {
    let folder = folder.as_ref();
    let replayed = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(2 << 20);
        thread.spawn_scoped(scope, || replay(folder, mutations, check)).expect("a thread").join()
    });
    replayed.unwrap_or_else(|panic| resume_unwind(panic));
}

#[allow(clippy::print_stderr, reason = "it is for whoever reads what a test says")]
fn replay(folder: &Path, mutations: u32, check: impl Fn(&[u8])) {
    let corpus = files(folder);
    assert!(!corpus.is_empty(), "{} holds no input", folder.display());
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

/// Bytes on which formats turn.
const TURNING: &[u8] = b"{}[]()<>\"'`\\,:;=&*!|%@#-+._/~ \t\r\n0129aAeEnu\0\x7f\x80\xc3\xe2\xf0\xff";

/// Makes one change.
fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let piece = |from: &[u8], random: &mut Random| {
        let start = random.below(from.len() + 1);
        let length = random.below((from.len() - start).min(24) + 1);
        from[start..start + length].to_vec()
    };
    match random.below(6) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = TURNING[random.below(TURNING.len())],
        2 => input.insert(at, TURNING[random.below(TURNING.len())]),
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

/// The generator SplitMix64.
struct Random(u64);

impl Random {
    /// From 0 up to and without `end`, which is at least 1.
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
    fn each_file_is_put_through_and_then_the_same_changes_of_them_in_each_run() {
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
        assert!(seen.iter().collect::<BTreeSet<_>>().len() > 150, "most changes are different");
        assert_eq!(seen, run());
    }

    #[test]
    #[should_panic(expected = "what must not be")]
    fn what_the_check_finds_fails_the_test() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "first").unwrap();
        replay_corpus(folder.path(), 1_000, |input| assert!(!input.contains(&0xff), "what must not be"));
    }
}

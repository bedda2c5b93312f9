//! Reads the numbers of passed and failed tests from the output of test runners.

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) closing_lines: Vec<String>,
    /// The location of each panic and the first line of its message.
    pub(super) panics: Vec<String>,
}

impl Tally {
    pub(super) fn read(output: &str) -> Self {
        let mut tally = Self::default();
        let mut lines = output.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line.starts_with("thread '") && line.contains(" panicked at ") {
                tally.panics.extend([line, lines.next().unwrap_or_default()].map(str::to_owned));
            }
            let Some(numbers) = line.strip_prefix("test result:") else { continue };
            let (passed, failed) = (count(numbers, "passed"), count(numbers, "failed"));
            tally.passed += passed;
            tally.failed += failed;
            if passed + failed > 0 {
                tally.closing_lines.push(line.to_owned());
            }
        }
        tally
    }

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.closing_lines.extend(other.closing_lines);
        self.panics.extend(other.panics);
    }
}

/// Returns the number before `word` in a line, such as 521 for `passed` in `ok. 521 passed; 2 failed;`.
fn count(line: &str, word: &str) -> u64 {
    let numbers = line.split(['.', ';']).filter_map(|part| part.trim().split_once(' '));
    numbers.filter(|(_, name)| *name == word).filter_map(|(number, _)| number.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, passed: u64, failed: u64) {
        let tally = Tally::read(output);
        assert_eq!((tally.passed, tally.failed), (passed, failed), "{tally:?}");
    }

    #[test]
    fn cargo_test_results_are_summed() {
        let line = "test result: ok. 16 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        check(&format!("running 16 tests\n{line}\n{line}"), 32, 0);
        check("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out", 0, 0);
        check("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out", 3, 2);
    }

    #[test]
    fn panic_messages_of_failed_tests_are_collected() {
        let panic = "thread 'queue::first' (17) panicked at src/queue.rs:3:5:\nassertion failed: queue.is_empty()\n";
        let tally = Tally::read(&format!("a line\n{panic}note: run with\n"));
        assert_eq!(tally.panics.join("\n") + "\n", panic);
    }
}

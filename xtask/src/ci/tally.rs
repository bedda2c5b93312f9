//! Reads the numbers of passed and failed tests from test runners' output.

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) closing_lines: Vec<String>,
}

impl Tally {
    /// Reads the output of a test runner. The lines with the numbers start with `test result: …` (cargo test) or
    /// `Summary [ …` (nextest).
    pub(super) fn read(output: &str) -> Self {
        let mut tally = Self::default();
        for line in output.lines().map(str::trim) {
            let Some(numbers) = line.strip_prefix("test result:").or_else(|| line.strip_prefix("Summary [")) else {
                continue;
            };
            let passed = count(numbers, "passed");
            let failed: u64 = ["failed", "timed out", "exec failed"].map(|word| count(numbers, word)).iter().sum();
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
    }
}

/// Returns the number before `word` in a line. For example, the number before `passed` in `521 passed (3 slow),` is 521.
fn count(line: &str, word: &str) -> u64 {
    line.split([',', ';', ':', '.'])
        .filter_map(|part| part.trim().split_once(' '))
        .filter(|(_, rest)| *rest == word || rest.strip_prefix(word).is_some_and(|rest| rest.starts_with(" (")))
        .filter_map(|(number, _)| number.parse::<u64>().ok())
        .sum()
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
    fn nextest_timeouts_count_as_failed() {
        check("     Summary [   0.123s] 523 tests run: 523 passed (1 slow), 2 skipped", 523, 0);
        check("     Summary [   1.1s] 5 tests run: 2 passed, 1 failed, 1 timed out, 1 exec failed, 0 skipped", 2, 3);
    }
}

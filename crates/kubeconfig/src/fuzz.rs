//! Entry points for the fuzz targets in `crates/fuzz/` and for the test below. Each function panics if the input
//! violates a property.

#![allow(clippy::unwrap_used, reason = "failed checks panic")]

use zeroize::Zeroizing;

use crate::resolve::Overrides;
use crate::types::Kubeconfig;
use crate::yaml::{self, Lines};

/// Parses a file. If the file is valid, checks that writing and parsing the configuration returns an equal
/// configuration, with and without its secrets. Also checks that the file has the line numbers that problems report.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(text) = yaml::decode(Zeroizing::new(bytes.to_vec())) else { return };
    let Ok(config) = Kubeconfig::parse(&text) else { return };
    let printed = config.to_yaml().unwrap();
    assert_eq!(Kubeconfig::parse(&printed).unwrap(), config, "{printed}");
    let redacted = config.redacted();
    assert_eq!(Kubeconfig::parse(&redacted.to_yaml().unwrap()).unwrap(), redacted);
    let lines = Lines::of(&text);
    // In YAML, a carriage return without a line feed also ends a line.
    let last = 1 + text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    if let Err(crate::error::Error::Invalid(problems)) = config.validate() {
        for problem in problems {
            let line = lines.as_ref().and_then(|lines| lines.find(&problem.field));
            assert!(line.is_none_or(|line| (1..=last).contains(&line)), "{line:?} of {problem}");
        }
    }
    let _ = config.client_config(&Overrides::default());
    let _ = config.minified();
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    #[test]
    fn any_file_is_read_without_panic() {
        replay_corpus(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/kubeconfig"), 1_000, kubeconfig);
    }
}

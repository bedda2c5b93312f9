//! Entry points for the fuzz targets in `crates/fuzz/` and for the corpus test in this module. Each function panics if
//! the input violates an invariant.

#![allow(clippy::unwrap_used, reason = "failed checks panic")]

use zeroize::Zeroizing;

use crate::resolve::Overrides;
use crate::types::Kubeconfig;
use crate::yaml::{self, Lines};

/// Parses a file and, if it is valid, checks that writing and parsing it again preserves the configuration, with and
/// without its secrets. Also checks that all line numbers in error messages exist in the file.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(text) = yaml::decode(Zeroizing::new(bytes.to_vec())) else { return };
    let Ok(config) = Kubeconfig::parse(&text) else { return };
    let printed = config.to_yaml().unwrap();
    assert_eq!(Kubeconfig::parse(&printed).unwrap(), config, "{printed}");
    let redacted = config.redacted();
    assert_eq!(Kubeconfig::parse(&redacted.to_yaml().unwrap()).unwrap(), redacted);
    let lines = Lines::of(&text);
    // In YAML, a lone carriage return also ends a line.
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

//! Tests that the parser never panics or hangs, and that each parsed configuration can be written.

use pintle_kubeconfig::{Kubeconfig, Overrides};
use proptest::prelude::*;

/// Generates fragments of valid and invalid kubeconfigs.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "apiVersion: v1\n",
        "clusters:\n",
        "users:\n",
        "contexts:\n",
        "current-context: c\n",
        "- name: a\n",
        "  cluster:\n",
        "  user:\n",
        "  context:\n",
        "    server: https://a\n",
        "    token: t\n",
        "    cluster: a\n",
        "    user: a\n",
        "    exec: {command: x}\n",
        "    certificate-authority-data: aGk=\n",
        "null\n",
        "[]\n",
        "{",
        "}",
        "- ",
        "&a ",
        "*a ",
        "<<: *a\n",
        "'",
        "\"",
        "|\n",
        "\t",
        "#",
        "%YAML 1.2\n",
        "---\n",
        "!!binary ",
    ];
    prop_oneof![8 => prop::sample::select(fixed.map(str::to_owned).to_vec()), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_rejected(pieces in prop::collection::vec(piece(), 0..24)) {
        let text = pieces.concat();
        if let Ok(config) = Kubeconfig::parse(&text) {
            let printed = config.to_yaml().unwrap();
            let again = Kubeconfig::parse(&printed).unwrap();
            prop_assert_eq!(&again, &config, "{}", printed);
            let _ = config.validate();
            let _ = config.client_config(&Overrides::default());
            let _ = config.minified();
        }
    }

    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        if let Err(error) = pintle_kubeconfig::Files::explicit(file.path()).load() {
            prop_assert!(error.to_string().contains(file.path().to_str().unwrap()));
        }
    }
}

#[test]
fn alias_bombs_are_rejected() {
    let mut aliases = String::from("a: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let row = format!("*a{}, ", n - 1).repeat(9);
        aliases.push_str(&format!("b{n}: &a{n} [{row}]\n"));
    }
    let nested = "[".repeat(5_000);
    for text in [aliases, nested] {
        assert!(Kubeconfig::parse(&text).is_err());
    }
}

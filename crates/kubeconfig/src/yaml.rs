//! Reads YAML like kubectl, and writes YAML that kubectl can read. All other modules of the crate read and write YAML
//! through this module.

mod de;
mod emit;
mod lines;
mod node;
mod scalar;

use std::io;
use std::path::Path;

use serde::Deserialize;
use zeroize::Zeroizing;

pub(crate) use self::lines::Lines;
use self::node::Document;
pub(crate) use self::node::MAX_SIZE;
use crate::error::Error;
use crate::types::Kubeconfig;

/// Parses the first document in `text` as a kubeconfig. An empty document results in an empty configuration. Errors
/// and warnings use `path` as the file name.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Kubeconfig, Error> {
    let fault = |message| Error::Parse { path: path.into(), message };
    let document = Document::read(text).map_err(fault)?;
    for (key, line) in &document.repeated {
        tracing::warn!("{}:{line}: the key {key:?} occurs twice in one map; the last value is used", path.display());
    }
    let Some(root) = document.root else { return Ok(Kubeconfig::default()) };
    let config = Option::<Kubeconfig>::deserialize(&*root).map_err(|error| fault(error.to_string()))?;
    let config = config.unwrap_or_default();
    for (member, value, expected) in [("kind", &config.kind, "Config"), ("apiVersion", &config.api_version, "v1")] {
        if !value.is_empty() && value != expected {
            return Err(fault(format!("its {member} is {value:?}; a kubeconfig has {member}: {expected}")));
        }
    }
    Ok(config)
}

pub(crate) fn print(config: &Kubeconfig) -> Result<Zeroizing<String>, Error> {
    let value = serde_json::to_value(config).map_err(|error| Error::Print { message: error.to_string() })?;
    Ok(emit::document(value))
}

/// Decodes a file in UTF-8, or in UTF-16 with a byte order mark.
pub(crate) fn decode(bytes: Zeroizing<Vec<u8>>) -> io::Result<Zeroizing<String>> {
    let fault = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let unit: fn([u8; 2]) -> u16 = match bytes.as_slice() {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => {
            let text = str::from_utf8(&bytes).map_err(|_| fault("it is not UTF-8"))?;
            return Ok(Zeroizing::new(text.to_owned()));
        }
    };
    let (units, rest) = bytes.as_chunks::<2>();
    // Reserve enough capacity up front, because a string that grows would leave copies of secrets in memory. Two bytes
    // of UTF-16 become at most three bytes of UTF-8.
    let mut text = Zeroizing::new(String::with_capacity(bytes.len() / 2 * 3));
    for character in char::decode_utf16(units.iter().map(|pair| unit(*pair))) {
        text.push(character.map_err(|_| fault("it begins with a UTF-16 byte order mark, but is not UTF-16"))?);
    }
    if rest.is_empty() {
        Ok(text)
    } else {
        Err(fault("it begins with a UTF-16 byte order mark, but ends within a character"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        parse(text, Path::new("kube/config")).unwrap_err().to_string()
    }

    #[test]
    fn error_names_file_line_and_field_without_values() {
        let unclosed = fault("clusters: [");
        assert!(unclosed.contains("kube/config") && unclosed.contains("line"), "{unclosed}");
        let number = fault("users:\n- name: a\n  user:\n    token: 4711\n");
        assert!(number.contains("quotes") && number.contains("users[0].user.token"), "{number}");
        assert!(number.contains("line 4") && !number.contains("4711"), "{number}");
        let text = fault("users:\n- name: a\n  user: hush\n");
        assert!(text.contains("invalid type: string, expected") && !text.contains("hush"), "{text}");
        let base64 = fault("users:\n- name: a\n  user:\n    client-key-data: '*hush*'\n");
        assert!(base64.contains("base64") && !base64.contains("hush"), "{base64}");
    }

    #[test]
    fn empty_file_is_an_empty_configuration() {
        for text in
            ["", "\n", "\u{feff}", "# only a comment\n", "null", "{}", "---\n---\nkind: [", "users:\nclusters: ~\n"]
        {
            let config = parse(text, Path::new("config")).unwrap();
            assert!(config.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn duplicate_entry_names_are_rejected() {
        for (list, member) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
            let text = format!("{list}:\n- name: twin\n  {member}: {{}}\n- name: twin\n  {member}: {{}}\n");
            let error = fault(&text);
            assert!(error.contains("\"twin\"") && error.contains(member), "{error}");
        }
        let extensions = "extensions:\n- {name: twin, extension: 1}\n- {name: twin, extension: 2}\n";
        assert!(fault(extensions).contains("twin"));
    }

    #[test]
    fn text_that_is_not_a_kubeconfig_is_rejected() {
        for (text, word) in [
            ("kind: Configuration", "kind: Config"),
            ("apiVersion: v2", "apiVersion: v1"),
            ("[]", "sequence"),
            ("hush", "string"),
            ("a: 1\n\tb: 2", "line"),
            ("current-context: \"a\\/b\"", "escape"),
            ("a: *b", "line 1"),
            ("a: &a [*a]", "contains the alias"),
            ("<<: 3", "<<"),
        ] {
            let error = fault(text);
            assert!(error.contains(word) && !error.contains("hush"), "{text}: {error}");
        }
    }

    #[test]
    fn kubeconfig_round_trip_loses_nothing() {
        let text = r#"
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: c
clusters:
- name: eu
  cluster: {server: "https://a", certificate-authority-data: aGk=, future: {x: [1, null]}}
users:
- name: me
  user:
    token: t
    exec: {apiVersion: v1, command: login, env: [{name: A, value: B}], future: 1}
contexts:
- name: c
  context: {cluster: eu, user: me, extensions: [{name: e, extension: {apiVersion: x/v1, raw: true}}]}
"#;
        let config = parse(text, Path::new("config")).unwrap();
        let printed = print(&config).unwrap();
        assert_eq!(parse(&printed, Path::new("config")).unwrap(), config);
        for kept in ["colors: true", "future", "raw: true", "aGk=", "value: B"] {
            assert!(printed.contains(kept), "{kept}: {}", *printed);
        }
    }

    #[test]
    fn utf16_is_decoded_in_either_byte_order() {
        let text = "\u{feff}current-context: \u{e4}\u{1f600}\n";
        let bytes =
            |order: fn(u16) -> [u8; 2]| Zeroizing::new(text.encode_utf16().flat_map(order).collect::<Vec<u8>>());
        for bytes in [bytes(u16::to_le_bytes), bytes(u16::to_be_bytes), Zeroizing::new(text.as_bytes().to_vec())] {
            let decoded = decode(bytes.clone()).unwrap();
            assert_eq!(parse(&decoded, Path::new("config")).unwrap().current_context, "\u{e4}\u{1f600}");
        }
        for broken in [&b"\xff\xfea"[..], b"\xff\xfe\x00\xd8", b"\xfe\xff\xd8\x00", b"a\xff"] {
            decode(Zeroizing::new(broken.to_vec())).unwrap_err();
        }
    }
}

//! The one place that knows the YAML libraries.

mod budget;
mod lines;

use std::path::Path;

pub(crate) use self::budget::LARGEST;
pub(crate) use self::lines::Lines;
use crate::{Error, Kubeconfig};

/// Reads a kubeconfig. An empty text is an empty one. `path` is for the error only.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Kubeconfig, Error> {
    let fault = |message| Error::Parse { path: path.into(), message };
    budget::check(text).map_err(fault)?;
    let config: Result<Option<Kubeconfig>, _> = serde_yaml::from_str(text);
    let config = config.map_err(|error| fault(without_values(&error.to_string())))?;
    Ok(config.unwrap_or_default())
}

/// Writes a kubeconfig.
pub(crate) fn print(config: &Kubeconfig) -> Result<String, Error> {
    serde_yaml::to_string(config).map_err(|error| Error::Print { message: error.to_string() })
}

/// serde's messages quote the value that does not fit, which may be a secret: `invalid type: string "hush", expected …`.
fn without_values(message: &str) -> String {
    for marker in ["invalid type: ", "invalid value: "] {
        if let Some(start) = message.find(marker).map(|at| at + marker.len())
            && let Some(end) = message[start..].rfind(", expected").map(|at| start + at)
        {
            let kind = message[start..end].split(['"', '`']).next().unwrap_or_default().trim_end();
            return format!("{}{kind}{}", &message[..start], &message[end..]);
        }
    }
    message.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        parse(text, Path::new("kube/config")).unwrap_err().to_string()
    }

    #[test]
    fn a_broken_file_is_named_with_line_and_field_but_without_values() {
        let unclosed = fault("clusters: [");
        assert!(unclosed.contains("kube/config") && unclosed.contains("line"), "{unclosed}");
        let number = fault("users:\n- name: a\n  user:\n    token: 4711\n");
        assert!(number.contains("quotes") && number.contains("token") && !number.contains("4711"), "{number}");
        let text = fault("users:\n- name: a\n  user: hush\n");
        assert!(text.contains("invalid type: string, expected") && !text.contains("hush"), "{text}");
        let base64 = fault("users:\n- name: a\n  user:\n    client-key-data: '*hush*'\n");
        assert!(base64.contains("base64") && !base64.contains("hush"), "{base64}");
    }

    #[test]
    fn an_empty_file_is_an_empty_configuration() {
        for text in ["", "\n", "# only a comment\n", "null", "{}", "users: null\nclusters: null\ncontexts:\n"] {
            let config = parse(text, Path::new("config")).unwrap();
            assert!(config.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn two_entries_of_one_name_are_refused() {
        for (list, member) in [("clusters", "cluster"), ("users", "user"), ("contexts", "context")] {
            let text = format!("{list}:\n- name: twin\n  {member}: {{}}\n- name: twin\n  {member}: {{}}\n");
            let error = fault(&text);
            assert!(error.contains("\"twin\"") && error.contains(member), "{error}");
        }
        let extensions = "extensions:\n- {name: twin, extension: 1}\n- {name: twin, extension: 2}\n";
        assert!(fault(extensions).contains("twin"));
    }

    #[test]
    fn reading_and_writing_back_loses_nothing() {
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
            assert!(printed.contains(kept), "{kept}: {printed}");
        }
    }
}

//! `Accept` headers.

/// A media type of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    Json,
    Yaml,
    Protobuf,
}

impl Media {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the content type of a watch stream, which is never YAML.
    pub fn stream_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            media => media.content_type(),
        }
    }
}

/// A clause of an `Accept` header.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The type before the slash.
    pub kind: String,
    /// The subtype after the slash.
    pub subtype: String,
    parameters: Vec<(String, String)>,
    quality: f64,
}

/// A clause's parameters `as`, `g` and `v`, which request a transformation of the response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedTransform {
    pub name: String,
    pub group: String,
    pub version: String,
}

impl Clause {
    /// Returns the value of the parameter `name`.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the requested transformation. The fields are empty if the clause requests no transformation.
    pub fn transform(&self) -> RequestedTransform {
        let parameter_text = |name| self.parameter(name).unwrap_or_default().to_owned();
        RequestedTransform { name: parameter_text("as"), group: parameter_text("g"), version: parameter_text("v") }
    }

    /// Returns `true` if the clause requests an indented response.
    pub fn pretty(&self) -> bool {
        self.parameter("pretty") == Some("1")
    }

    fn wildcards(&self) -> u8 {
        u8::from(self.kind == "*") + u8::from(matches!(self.subtype.as_str(), "*" | ""))
    }

    /// Returns the clause's media type, which is JSON for a wildcard.
    pub fn media(&self) -> Option<Media> {
        match (self.kind.as_str(), self.subtype.as_str()) {
            ("application", "json" | "*") | ("*", "*" | "") => Some(Media::Json),
            ("application", "yaml") => Some(Media::Yaml),
            ("application", "vnd.kubernetes.protobuf") => Some(Media::Protobuf),
            _ => None,
        }
    }
}

/// Returns the clauses of an `Accept` header, best first. Clauses are sorted by quality, then by type (exact types
/// before wildcards), and then by position in the header. A missing or empty header accepts every media type.
pub fn clauses(header: &str) -> Vec<Clause> {
    if header.trim().is_empty() {
        return vec![Clause { kind: "*".into(), subtype: "*".into(), parameters: Vec::new(), quality: 1.0 }];
    }
    let mut clauses: Vec<_> = header.split(',').filter_map(clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(a.wildcards().cmp(&b.wildcards())));
    clauses
}

fn clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';').map(str::trim);
    let (kind, subtype) = match parts.next()? {
        // kube-apiserver accepts `*` without a slash only in requests for custom resources.
        "*" => ("*", ""),
        media => media.split_once('/')?,
    };
    let parameters: Vec<(String, String)> = parts
        .filter_map(|part| part.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    let quality = parameters.iter().find(|(name, _)| name == "q").map_or(1.0, |(_, q)| q.parse().unwrap_or(0.0));
    Some(Clause { kind: kind.trim().into(), subtype: subtype.trim().into(), parameters, quality })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_sorted_by_preference() {
        let check = |header: &str, expected: Option<Media>| {
            assert_eq!(clauses(header).iter().find_map(Clause::media), expected, "{header:?}");
        };
        check("", Some(Media::Json));
        check("application/json;q=0.1, application/yaml;q=0.9", Some(Media::Yaml));
        check("application/yaml;q=0", Some(Media::Yaml));
        check("application/yaml;q=x, application/json", Some(Media::Json));
        check("application/yaml;q=1.5,application/json", Some(Media::Yaml));
        check("*/*, application/yaml", Some(Media::Yaml));
        check("text/html, */*", Some(Media::Json));
        check("text/html", None);
        check(",,,", None);
        check("application/vnd.kubernetes.protobuf,application/json", Some(Media::Protobuf));
        check("application/vnd.kubernetes.protobuf;q=0.8, */*", Some(Media::Json));
    }

    #[test]
    fn transform_has_three_parameters() {
        let clauses = clauses("application/json;as=Table;v=v1;g=meta.k8s.io,application/json");
        let table = RequestedTransform { name: "Table".into(), group: "meta.k8s.io".into(), version: "v1".into() };
        assert_eq!(clauses[0].transform(), table);
        assert_eq!(clauses[1].transform(), RequestedTransform::default());
    }
}

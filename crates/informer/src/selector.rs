//! Selectors over labels.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A label selector, in the language of `kubectl get -l`: requirements with commas between, all of which must hold.
///
/// | Requirement | holds if the label |
/// |---|---|
/// | `key=value`, `key==value` | has that value |
/// | `key!=value` | is absent or has another |
/// | `key in (a, b)` | has one of these values |
/// | `key notin (a, b)` | is absent or has none of these |
/// | `key` | is there |
/// | `!key` | is absent |
///
/// The empty selector, which is the default, matches everything.
///
/// ```
/// # use std::collections::BTreeMap;
/// use pintle_informer::Selector;
///
/// let selector: Selector = "app=web,tier in (front, back),!canary".parse()?;
/// let labels = BTreeMap::from([("app".to_owned(), "web".to_owned()), ("tier".to_owned(), "back".to_owned())]);
/// assert!(selector.matches(&labels));
/// # Ok::<(), pintle_informer::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
}

impl Selector {
    /// Whether labels meet all requirements.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.holds(labels.get(&requirement.key)))
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// This selector, and the label `key` has `value` as well.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.requirements.push(Requirement { key: key.into(), test: Test::In(vec![value.into()]) });
        self
    }
}

impl Test {
    fn holds(&self, label: Option<&String>) -> bool {
        match self {
            Self::Exists => label.is_some(),
            Self::Absent => label.is_none(),
            Self::In(values) => label.is_some_and(|label| values.contains(label)),
            Self::NotIn(values) => label.is_none_or(|label| !values.contains(label)),
        }
    }
}

impl FromStr for Selector {
    type Err = InvalidSelector;

    /// Reads a selector.
    ///
    /// # Errors
    ///
    /// A requirement without a key, with a word that is no operator, or with a list that is not in parentheses.
    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let requirements = split(text).map(|part| requirement(part.trim()).ok_or(part));
        let requirements: Result<_, &str> = requirements.collect();
        let requirements =
            requirements.map_err(|part| InvalidSelector { text: text.into(), part: part.trim().into() })?;
        Ok(Self { requirements })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Requirement { key, test }) in self.requirements.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match test {
                Test::Exists => write!(f, "{comma}{key}")?,
                Test::Absent => write!(f, "{comma}!{key}")?,
                Test::In(values) if values.len() == 1 => write!(f, "{comma}{key}={}", values[0])?,
                Test::NotIn(values) if values.len() == 1 => write!(f, "{comma}{key}!={}", values[0])?,
                Test::In(values) => write!(f, "{comma}{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{comma}{key} notin ({})", values.join(","))?,
            }
        }
        Ok(())
    }
}

/// A text that is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} in the label selector {text:?} is not a requirement such as \"app=web\" or \"tier in (a, b)\"")]
pub struct InvalidSelector {
    text: String,
    part: String,
}

/// Parts at the commas outside of parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

fn requirement(text: &str) -> Option<Requirement> {
    if let Some(key) = text.strip_prefix('!') {
        return Some(Requirement { key: word(key)?, test: Test::Absent });
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Some(Requirement { key: word(key)?, test: Test::NotIn(vec![value_of(value)?]) });
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Some(Requirement { key: word(key)?, test: Test::In(vec![value_of(value)?]) });
    }
    let Some((key, rest)) = text.split_once(char::is_whitespace) else {
        return Some(Requirement { key: word(text)?, test: Test::Exists });
    };
    let (key, rest) = (word(key)?, rest.trim_start());
    if let Some(list) = rest.strip_prefix("notin") {
        return Some(Requirement { key, test: Test::NotIn(values(list)?) });
    }
    Some(Requirement { key, test: Test::In(values(rest.strip_prefix("in")?)?) })
}

fn values(list: &str) -> Option<Vec<String>> {
    list.trim().strip_prefix('(')?.strip_suffix(')')?.split(',').map(value_of).collect()
}

/// A value may be empty, a key may not.
fn value_of(text: &str) -> Option<String> {
    let text = text.trim();
    (text.is_empty() || word(text).is_some()).then(|| text.to_owned())
}

fn word(text: &str) -> Option<String> {
    let text = text.trim();
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    (!text.is_empty() && text.chars().all(is_letter)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(selector: &str, labels: &[(&str, &str)], expected: bool) {
        let labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let parsed: Selector = selector.parse().unwrap();
        assert_eq!(parsed.matches(&labels), expected, "{selector:?} on {labels:?}");
        assert_eq!(parsed.to_string().parse(), Ok(parsed), "{selector:?} printed and read again");
    }

    #[test]
    fn each_operator_holds_as_its_row_says() {
        let web = [("app", "web"), ("tier", "a")];
        check("", &web, true);
        check("app=web", &web, true);
        check("app == web, tier=a", &web, true);
        check("app=web,tier=b", &web, false);
        check("app!=web", &web, false);
        check("app!=web", &[], true);
        check("tier in (a, b),app", &web, true);
        check("tier in (b,c)", &web, false);
        check("tier notin (a,b)", &web, false);
        check("tier notin (a,b)", &[], true);
        check("!app", &web, false);
        check("!other,app", &web, true);
        check("app=", &[("app", "")], true);
        check("example.com/part-of=x_y.z", &[("example.com/part-of", "x_y.z")], true);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_what_is_read_prints_as_it_means(text in "[a-z!=, ()in]{0,24}|\\PC{0,12}") {
            if let Ok(selector) = text.parse::<Selector>() {
                prop_assert_eq!(selector.to_string().parse(), Ok(selector), "{:?}", text);
            }
        }
    }

    #[test]
    fn what_is_no_requirement_is_named() {
        for bad in ["=web", "app=web,", "app in web", "app near (a)", "a b", "app=(a)", "in (a)", "app>1"] {
            let error = bad.parse::<Selector>().unwrap_err();
            assert!(error.to_string().contains(bad), "{error}");
        }
    }
}

//! Label selectors.

use std::collections::BTreeMap;
use std::fmt;

use super::names::{label_key_faults, label_value_faults};
use super::{InvalidSelector, quoted};

/// A list of requirements for the labels of an object. The selector matches an object if the object meets all
/// requirements. The default selector matches all objects.
///
/// | text | method | matches if the label |
/// |---|---|---|
/// | `key=value`, `key==value` | [`equals`](Self::equals) | has this value |
/// | `key!=value` | [`not_equals`](Self::not_equals) | is absent or has another value |
/// | `key in (a, b)` | [`is_in`](Self::is_in) | has one of these values |
/// | `key notin (a, b)` | [`not_in`](Self::not_in) | is absent or has none of these values |
/// | `key` | [`exists`](Self::exists) | is present |
/// | `!key` | [`does_not_exist`](Self::does_not_exist) | is absent |
/// | `key>7`, `key<7` | [`gt`](Self::gt), [`lt`](Self::lt) | is a greater or smaller integer |
///
/// In the string form, requirements are separated by commas. Whitespace is allowed everywhere except inside words. A
/// missing value means the empty string, as in `key=`, `key in ()` and `key in (a,)`. The words `in` and `notin` are
/// operators only after a key, and ordinary words elsewhere. Numbers in `>` and `<` requirements must fit into an
/// `i64`.
///
/// Requirements are sorted and deduplicated, so selectors with the same requirements are equal and have the same string
/// form. Requirements are not simplified further: as in Kubernetes, `a=b` and `a in (b)` are different selectors.
///
/// # Examples
///
/// ```
/// use std::collections::BTreeMap;
///
/// use pintle_meta::LabelSelector;
///
/// let selector: LabelSelector = "tier in (front, back), app=web,!canary".parse()?;
/// let labels = [("app", "web"), ("tier", "back")].map(|(key, value)| (key.to_owned(), value.to_owned()));
/// assert!(selector.matches(&BTreeMap::from(labels)));
/// assert_eq!(selector.to_string(), "app=web,!canary,tier in (back,front)");
///
/// let built = LabelSelector::everything().equals("app", "web")?.is_in("tier", ["front", "back"])?.does_not_exist("canary")?;
/// assert_eq!(built, selector);
/// # Ok::<(), pintle_meta::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// The requirements, sorted and without duplicates.
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Returns the selector that matches all objects.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns a selector that matches no objects. The string form of this selector is `nothing,!nothing`, which
    /// requires the label `nothing` to be both present and absent. A server that parses `nothing,!nothing` selects no
    /// objects.
    pub fn nothing() -> Self {
        let requirement = |operator| LabelRequirement { key: "nothing".into(), operator, values: Vec::new() };
        [SelectorOperator::Exists, SelectorOperator::DoesNotExist].map(requirement).into_iter().collect()
    }

    /// Returns a selector for objects that have all of these labels, like apimachinery's `ValidatedSelectorFromSet`.
    ///
    /// # Errors
    ///
    /// Returns an error if a label key or label value is invalid.
    pub fn from_labels<K, V>(labels: impl IntoIterator<Item = (K, V)>) -> Result<Self, InvalidSelector>
    where
        K: Into<String>,
        V: Into<String>,
    {
        let mut labels = labels.into_iter();
        labels.try_fold(Self::everything(), |selector, (key, value)| selector.equals(key, value))
    }

    /// Requires that the label `key` has the value `value`.
    ///
    /// # Errors
    ///
    /// Returns an error if `key` is not a valid label key, or if `value` is not a valid label value.
    pub fn equals(self, key: impl Into<String>, value: impl Into<String>) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::Equals, [value])?))
    }

    /// Requires that the label `key` is absent or has a value other than `value`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`equals`](Self::equals).
    pub fn not_equals(self, key: impl Into<String>, value: impl Into<String>) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::NotEquals, [value])?))
    }

    /// Requires that the label `key` has one of the given values.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`equals`](Self::equals), and an error if `values` is empty.
    pub fn is_in<V: Into<String>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::In, values)?))
    }

    /// Requires that the label `key` is absent or has none of the given values.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`is_in`](Self::is_in).
    pub fn not_in<V: Into<String>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::NotIn, values)?))
    }

    /// Requires that the label `key` is present.
    ///
    /// # Errors
    ///
    /// Returns an error if `key` is not a valid label key.
    pub fn exists(self, key: impl Into<String>) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::Exists, [""; 0])?))
    }

    /// Requires that the label `key` is absent.
    ///
    /// # Errors
    ///
    /// Returns the same error as [`exists`](Self::exists).
    pub fn does_not_exist(self, key: impl Into<String>) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::DoesNotExist, [""; 0])?))
    }

    /// Requires that the value of the label `key` is an integer greater than `bound`.
    ///
    /// # Errors
    ///
    /// Returns an error if `key` is not a valid label key, or if `bound` is negative. A negative `bound` is invalid,
    /// because a label value cannot start with a minus sign.
    pub fn gt(self, key: impl Into<String>, bound: i64) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::GreaterThan, [bound.to_string()])?))
    }

    /// Requires that the value of the label `key` is an integer less than `bound`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`gt`](Self::gt).
    pub fn lt(self, key: impl Into<String>, bound: i64) -> Result<Self, InvalidSelector> {
        Ok(self.and(LabelRequirement::new(key, SelectorOperator::LessThan, [bound.to_string()])?))
    }

    /// Adds a requirement, unless the selector already contains it.
    pub fn and(mut self, requirement: LabelRequirement) -> Self {
        if let Err(place) = self.requirements.binary_search(&requirement) {
            self.requirements.insert(place, requirement);
        }
        self
    }

    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Returns `true` if this selector has no requirements, which means that it matches all objects.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns `true` if this selector requires a label to be both present and absent, like [`nothing`](Self::nothing).
    /// This method does not detect other contradictions between requirements.
    pub fn is_nothing(&self) -> bool {
        self.requirements.windows(2).any(|pair| {
            pair[0].key == pair[1].key
                && [pair[0].operator, pair[1].operator] == [SelectorOperator::Exists, SelectorOperator::DoesNotExist]
        })
    }

    /// Returns `true` if this selector matches the given labels. This method does not allocate.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_by(|key| labels.get(key).map(String::as_str))
    }

    /// Returns `true` if this selector matches an object. `label` must return the value of a label, or `None` if the
    /// label is absent. This method does not allocate.
    pub fn matches_by<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

impl FromIterator<LabelRequirement> for LabelSelector {
    fn from_iter<I: IntoIterator<Item = LabelRequirement>>(requirements: I) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_unstable();
        requirements.dedup();
        Self { requirements }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// One requirement of a [`LabelSelector`].
///
/// # Examples
///
/// ```
/// use pintle_meta::{LabelRequirement, LabelSelector, SelectorOperator};
///
/// let tier = LabelRequirement::new("tier", SelectorOperator::In, ["front", "back"])?;
/// assert_eq!(LabelSelector::everything().and(tier), "tier in (front, back)".parse()?);
/// # Ok::<(), pintle_meta::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelRequirement {
    key: String,
    operator: SelectorOperator,
    /// The values, sorted and without duplicates.
    values: Vec<String>,
}

/// The operator of a [`LabelRequirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SelectorOperator {
    /// `=` and `==`: the label must have this value.
    Equals,
    /// `in`: the label must have one of these values.
    In,
    /// `!=`: the label must be absent or have another value.
    NotEquals,
    /// `notin`: the label must be absent or have none of these values.
    NotIn,
    /// The key alone: the label must be present.
    Exists,
    /// `!` before the key: the label must be absent.
    DoesNotExist,
    /// `>`: the label must be an integer greater than this value.
    GreaterThan,
    /// `<`: the label must be an integer less than this value.
    LessThan,
}

impl LabelRequirement {
    /// Creates a requirement.
    ///
    /// # Errors
    ///
    /// - Returns an error if `key` is not a valid label key, or if a value is not a valid label value.
    /// - Returns an error if `operator` does not accept the number of values in `values`. `In` and `NotIn` require at
    ///   least one value. `Exists` and `DoesNotExist` require that there are no values. All other operators require a
    ///   single value.
    /// - Returns an error if the value of `GreaterThan` or `LessThan` is not an integer.
    ///
    /// The error lists all problems, with the messages of Kubernetes' `NewRequirement`.
    pub fn new<V: Into<String>>(
        key: impl Into<String>,
        operator: SelectorOperator,
        values: impl IntoIterator<Item = V>,
    ) -> Result<Self, InvalidSelector> {
        let key = key.into();
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        let faults = faults(&key, operator, &values);
        match &faults[..] {
            [] => {}
            [fault] => return Err(InvalidSelector::new(fault.as_str())),
            faults => return Err(InvalidSelector::new(format!("[{}]", faults.join(", ")))),
        }
        values.sort_unstable();
        values.dedup();
        Ok(Self { key, operator, values })
    }

    /// Returns the label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> SelectorOperator {
        self.operator
    }

    /// Returns the values in sorted order and without duplicates.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Returns `true` if a label with the value `label` meets the requirement. `None` means that the label is absent.
    /// This method does not allocate.
    pub fn matches(&self, label: Option<&str>) -> bool {
        let is_among = |label: &str| self.values.binary_search_by(|value| value.as_str().cmp(label)).is_ok();
        let integers = || {
            let label = label?.parse::<i64>().ok()?;
            Some((label, self.values.first()?.parse::<i64>().ok()?))
        };
        match self.operator {
            SelectorOperator::Equals | SelectorOperator::In => label.is_some_and(is_among),
            SelectorOperator::NotEquals | SelectorOperator::NotIn => !label.is_some_and(is_among),
            SelectorOperator::Exists => label.is_some(),
            SelectorOperator::DoesNotExist => label.is_none(),
            SelectorOperator::GreaterThan => integers().is_some_and(|(label, bound)| label > bound),
            SelectorOperator::LessThan => integers().is_some_and(|(label, bound)| label < bound),
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            SelectorOperator::Equals => write!(f, "{key}={values}"),
            SelectorOperator::In => write!(f, "{key} in ({values})"),
            SelectorOperator::NotEquals => write!(f, "{key}!={values}"),
            SelectorOperator::NotIn => write!(f, "{key} notin ({values})"),
            SelectorOperator::Exists => f.write_str(key),
            SelectorOperator::DoesNotExist => write!(f, "!{key}"),
            SelectorOperator::GreaterThan => write!(f, "{key}>{values}"),
            SelectorOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// Returns the problems of a requirement, in Kubernetes' order.
fn faults(key: &str, operator: SelectorOperator, values: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let key_faults = label_key_faults(key);
    if !key_faults.is_empty() {
        faults.push(format!("key: Invalid value: {}: {}", quoted(key), key_faults.join("; ")));
    }
    let wrong_number = match operator {
        SelectorOperator::In | SelectorOperator::NotIn => {
            values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty")
        }
        SelectorOperator::Equals | SelectorOperator::NotEquals => {
            (values.len() != 1).then_some("exact-match compatibility requires one single value")
        }
        SelectorOperator::Exists | SelectorOperator::DoesNotExist => {
            (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
        }
        SelectorOperator::GreaterThan | SelectorOperator::LessThan => {
            (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
    };
    if let Some(why) = wrong_number {
        faults.push(format!("values: Invalid value: {}: {why}", as_json(values)));
    }
    if matches!(operator, SelectorOperator::GreaterThan | SelectorOperator::LessThan) {
        let not_integers = values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err());
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        faults.extend(not_integers.map(|(at, value)| format!("values[{at}]: Invalid value: {}: {why}", quoted(value))));
    }
    for (at, value) in values.iter().enumerate() {
        let value_faults = label_value_faults(value);
        if !value_faults.is_empty() {
            let why = value_faults.join("; ");
            faults.push(format!("values[{at}][{key}]: Invalid value: {}: {why}", quoted(value)));
        }
    }
    faults
}

/// Formats `values` as JSON like Go, where a nil slice becomes `null`.
fn as_json(values: &[String]) -> String {
    if values.is_empty() { "null".into() } else { serde_json::Value::from(values).to_string() }
}

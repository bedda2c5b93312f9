//! Field selectors.

use std::fmt;
use std::str::FromStr;

use super::InvalidSelector;

/// A list of requirements for the fields of an object. The selector matches an object if the object meets all
/// requirements. The default selector matches all objects.
///
/// The string form of a field selector consists of `field=value`, `field==value` and `field!=value`, separated by
/// commas. A missing field is treated as `""`. A field that is not a string is compared by its JSON text. The supported
/// fields depend on the kind: all kinds support `metadata.name`, and most kinds support `metadata.namespace`. Pods, for
/// example, also support `spec.nodeName` and `status.phase`.
///
/// In values, the characters `\`, `,` and `=` are escaped as `\\`, `\,` and `\=`. Whitespace is significant. Empty
/// requirements between commas are ignored.
///
/// Requirements are sorted and deduplicated, so selectors with the same requirements are equal and have the same string
/// form.
///
/// # Examples
///
/// ```
/// use pintle_meta::FieldSelector;
///
/// let selector: FieldSelector = "status.phase!=Running,spec.nodeName==n1".parse()?;
/// assert_eq!(selector.to_string(), "spec.nodeName=n1,status.phase!=Running");
/// assert!(selector.matches(|field| if field == "spec.nodeName" { "n1" } else { "Pending" }));
///
/// let built = FieldSelector::everything().not_equals("status.phase", "Running").equals("spec.nodeName", "n1");
/// assert_eq!(built, selector);
/// # Ok::<(), pintle_meta::InvalidSelector>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    /// The requirements, sorted by their string form and without duplicates.
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Returns the selector that matches all objects.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Requires that `field` has the value `value`.
    ///
    /// # Panics
    ///
    /// Panics if `field` is empty or contains `=`, `!`, `,` or `\`. None of the field names in Kubernetes contain these
    /// characters. Parse untrusted input as a selector instead.
    pub fn equals(self, field: &str, value: impl Into<String>) -> Self {
        self.and(field, value.into(), true)
    }

    /// Requires that `field` does not have the value `value`.
    ///
    /// # Panics
    ///
    /// Panics if `field` is empty or contains a character that [`equals`](Self::equals) does not allow.
    pub fn not_equals(self, field: &str, value: impl Into<String>) -> Self {
        self.and(field, value.into(), false)
    }

    fn and(self, field: &str, value: String, equals: bool) -> Self {
        let is_field = !field.is_empty() && !field.contains(['=', '!', ',', '\\']);
        assert!(is_field, "{field:?} is not a field that a selector can name");
        let requirement = FieldRequirement { field: field.into(), value, equals };
        self.requirements.into_iter().chain([requirement]).collect()
    }

    /// Returns the requirements, in the order of the string form.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Returns `true` if this selector has no requirements, which means that it matches all objects.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the value that the selector requires for `field`, if any, like client-go's `RequiresExactMatch`.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let mut requirements = self.requirements.iter();
        requirements.find(|found| found.equals && found.field == field).map(|found| found.value.as_str())
    }

    /// Returns `true` if this selector matches an object. `value_of` must return the value of a field, or `""` if the
    /// object does not have the field. This method does not allocate.
    pub fn matches<V: AsRef<str>>(&self, mut value_of: impl FnMut(&str) -> V) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(value_of(&requirement.field).as_ref()))
    }
}

impl FromIterator<FieldRequirement> for FieldSelector {
    fn from_iter<I: IntoIterator<Item = FieldRequirement>>(requirements: I) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by_cached_key(ToString::to_string);
        requirements.dedup();
        Self { requirements }
    }
}

impl FromStr for FieldSelector {
    type Err = InvalidSelector;

    /// Parses a selector. Parsing `n` bytes takes O(n log n) time and O(n) memory. The parser is not recursive.
    ///
    /// # Errors
    ///
    /// Returns an error if a requirement has no operator, or if a value contains an unescaped `,` or `=` or an invalid
    /// escape sequence. If several requirements are invalid, the error describes the first one in alphabetical order.
    /// The message is the same as kube-apiserver's.
    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let mut parts: Vec<_> = split(text).filter(|part| !part.is_empty()).collect();
        parts.sort_unstable();
        let read = |part: &&str| {
            let (field, equals, value) = term(part).ok_or_else(|| {
                InvalidSelector::new(format!("invalid selector: '{text}'; can't understand '{part}'"))
            })?;
            let value = unescaped(value)?;
            Ok(FieldRequirement { field: field.into(), value, equals })
        };
        let requirements = parts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        // Like Kubernetes, ignore a requirement that consists only of an operator.
        Ok(requirements.into_iter().filter(|read| !(read.field.is_empty() && read.value.is_empty())).collect())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

/// One requirement of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    field: String,
    value: String,
    equals: bool,
}

impl FieldRequirement {
    /// Returns the name of the field, such as `metadata.name`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the value that is compared with the field.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns `true` for `=`, and `false` for `!=`.
    pub fn is_equality(&self) -> bool {
        self.equals
    }

    /// Returns `true` if `value`, the value of the field, meets the requirement.
    pub fn matches(&self, value: &str) -> bool {
        (self.value == value) == self.equals
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.equals { "=" } else { "!=" };
        let value = self.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        write!(f, "{}{operator}{value}", self.field)
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |c| {
        let ends = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })
}

/// Splits a requirement at its first operator. Returns the field, whether the operator is an equality operator, and the
/// escaped value.
fn term(part: &str) -> Option<(&str, bool, &str)> {
    let is_operator = |(at, _): &(usize, &str)| part[*at..].starts_with('=') || part[*at..].starts_with("!=");
    let (at, _) = part.match_indices(['=', '!']).find(is_operator)?;
    let (field, rest) = part.split_at(at);
    Some(match (rest.strip_prefix("!="), rest.strip_prefix("==")) {
        (Some(value), _) => (field, false, value),
        (_, Some(value)) => (field, true, value),
        _ => (field, true, &rest[1..]),
    })
}

fn unescaped(value: &str) -> Result<String, InvalidSelector> {
    let wrong = |why: String| InvalidSelector::new(format!("invalid field selector: {why}"));
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                Some(other) => return Err(wrong(format!("invalid escape sequence: \\{other}"))),
                None => return Err(wrong("invalid escape sequence: \\".into())),
            },
            ',' | '=' => return Err(wrong(format!("unescaped character in value: {}", u32::from(c)))),
            c => text.push(c),
        }
    }
    Ok(text)
}

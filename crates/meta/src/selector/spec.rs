//! Label selectors in the fields of an object, which consist of `matchLabels` and `matchExpressions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{InvalidSelector, LabelRequirement, LabelSelector, SelectorOperator, quoted};
use crate::null::or_empty;

/// A label selector that is part of an object such as a Deployment or a NetworkPolicy, like Kubernetes'
/// `metav1.LabelSelector`.
///
/// [`LabelSelector::from_spec`] converts a `LabelSelectorSpec` to a [`LabelSelector`].
///
/// # Examples
///
/// ```
/// use pintle_meta::{LabelSelector, LabelSelectorSpec};
///
/// let spec: LabelSelectorSpec = serde_json::from_str(
///     r#"{"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}"#,
/// )?;
/// assert_eq!(LabelSelector::from_spec(Some(&spec))?, "app=web,tier in (a,b)".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelectorSpec {
    /// The labels that an object must have, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Additional requirements that an object must meet.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub match_expressions: Vec<LabelSelectorExpression>,
}

/// An entry of [`LabelSelectorSpec::match_expressions`], like Kubernetes' `LabelSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LabelSelectorExpression {
    /// The label key.
    pub key: String,
    /// The operator: `In`, `NotIn`, `Exists` or `DoesNotExist`. Decoding accepts any operator, but
    /// [`LabelSelector::from_spec`] rejects unknown operators.
    pub operator: String,
    /// The values, which must be empty for `Exists` and `DoesNotExist`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Converts the selector of an object, like apimachinery's `LabelSelectorAsSelector`. `None` becomes a selector
    /// that matches no objects, and an empty selector becomes a selector that matches all objects.
    ///
    /// # Errors
    ///
    /// Returns an error if an operator is unknown, if an operator does not accept this number of values, or if a key or
    /// value is invalid.
    pub fn from_spec(spec: Option<&LabelSelectorSpec>) -> Result<Self, InvalidSelector> {
        let Some(spec) = spec else { return Ok(Self::nothing()) };
        let labels = spec.match_labels.iter();
        let labels = labels.map(|(key, value)| LabelRequirement::new(key, SelectorOperator::Equals, [value]));
        labels.chain(spec.match_expressions.iter().map(LabelSelectorExpression::requirement)).collect()
    }
}

impl LabelSelectorExpression {
    fn requirement(&self) -> Result<LabelRequirement, InvalidSelector> {
        let operator = match self.operator.as_str() {
            "In" => SelectorOperator::In,
            "NotIn" => SelectorOperator::NotIn,
            "Exists" => SelectorOperator::Exists,
            "DoesNotExist" => SelectorOperator::DoesNotExist,
            other => {
                let why = format!("{} is not a valid label selector operator", quoted(other));
                return Err(InvalidSelector::new(why));
            }
        };
        LabelRequirement::new(&self.key, operator, &self.values)
    }
}

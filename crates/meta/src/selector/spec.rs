//! Label selectors that are fields of objects, with `matchLabels` and `matchExpressions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{InvalidSelector, LabelRequirement, LabelSelector, SelectorOperator, quoted};

/// A label selector that is a field of an object, such as a Deployment or a NetworkPolicy. The type is Kubernetes'
/// `metav1.LabelSelector`.
///
/// [`LabelSelector::from_spec`] converts it to a selector.
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
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub match_expressions: Vec<LabelSelectorExpression>,
}

/// One of the `matchExpressions` of a [`LabelSelectorSpec`]. The type is Kubernetes' `LabelSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LabelSelectorExpression {
    /// The key of the label.
    pub key: String,
    /// The operator, which is `In`, `NotIn`, `Exists` or `DoesNotExist`. Decoding also accepts other texts.
    pub operator: String,
    /// The values. The list of values is empty for `Exists` and `DoesNotExist`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Converts a selector that is a field of an object to a [`LabelSelector`], like client-go's `LabelSelectorAsSelector`. If the
    /// field is `None`, the result matches no objects. If the field is an empty selector, the result matches all objects.
    ///
    /// # Errors
    ///
    /// Fails if an operator is unknown or the number of values does not fit the operator. Fails if a key or a value is
    /// not allowed for labels.
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

/// `null` is decoded as empty, because Go writes a nil map or slice as `null`.
fn null_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

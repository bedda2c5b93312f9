//! The selector as objects hold it: `matchLabels` and `matchExpressions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::{InvalidSelector, LabelRequirement, LabelSelector, SelectorOperator, quoted};

/// A label selector as a Deployment or a NetworkPolicy holds it: Kubernetes' `metav1.LabelSelector`.
///
/// What it selects, [`LabelSelector::from_spec`] says.
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
    /// The labels that must be there, and their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub match_labels: BTreeMap<String, String>,
    /// What else must hold.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub match_expressions: Vec<LabelSelectorExpression>,
}

/// One of the `matchExpressions` of a [`LabelSelectorSpec`]: Kubernetes' `LabelSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LabelSelectorExpression {
    /// The key of the label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. An object with another text in this place can still be read.
    pub operator: String,
    /// Some for `In` and `NotIn`, none for the others.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// The selector that an object means: client-go's `LabelSelectorAsSelector`. One that is absent selects nothing, an empty
    /// one everything.
    ///
    /// # Errors
    ///
    /// An operator that is none of the four, another number of values than it takes, and a key or a value that no label can have.
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

/// Go writes a nil map or slice as `null`.
fn null_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

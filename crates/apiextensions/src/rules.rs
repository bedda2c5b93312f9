//! Compiles and evaluates the CEL validation rules of custom resources (`x-kubernetes-validations`).
//!
//! A [`RuleTree`] contains the compiled rules of a schema and its nested schemas. [`evaluate`] evaluates the rules for
//! an object. The error messages of violated rules are the same as in kube-apiserver.

mod compile;
mod correlation;
mod evaluate;
mod field_path;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_cel::Schema;
use pintle_json::Json;

use compile::CompiledRule;

pub(crate) use compile::{Compiled, RuleEnvironments, RuleSource};
pub(crate) use evaluate::{DefaultBudget, evaluate};
pub(crate) use field_path::is_valid as is_valid_field_path;

/// The cost limits for evaluating one expression (`PerCallLimit`) and all expressions for one object
/// (`RuntimeCELCostBudget`).
const CALL_BUDGET: u64 = 1_000_000;
const OBJECT_BUDGET: u64 = 10_000_000;

/// The rules of a schema and its nested schemas. The tree omits nested schemas without rules.
#[derive(Debug)]
pub(crate) struct RuleTree {
    /// The compiled rules, with an error in place of each rule that does not compile.
    rules: Vec<Result<CompiledRule, String>>,
    /// The schema for the types in CEL expressions, which is set only if this schema has rules.
    schema: Option<Arc<Schema>>,
    type_name: String,
    list_keys: Option<Vec<String>>,
    properties: BTreeMap<String, RuleTree>,
    additional: Option<Box<RuleTree>>,
    items: Option<Box<RuleTree>>,
}

/// Determines whether a schema describes a resource. Root objects and embedded objects are resources. In CEL
/// expressions, resources have the fields `apiVersion`, `kind` and `metadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Resource,
    Value,
}

impl Level {
    pub(crate) fn of(schema: &Json) -> Self {
        if schema.is_true("/x-kubernetes-embedded-resource") { Self::Resource } else { Self::Value }
    }

    pub(crate) fn view(self, schema: &Json) -> Arc<Schema> {
        Arc::new(match self {
            Self::Resource => Schema::resource(schema),
            Self::Value => Schema::new(schema),
        })
    }
}

impl RuleTree {
    /// Compiles the rules in a valid definition's schema, or returns `None` if it has no rules.
    pub(crate) fn read(schema: &Json) -> Option<Self> {
        Self::at(schema, Level::Resource)
    }

    fn at(schema: &Json, level: Level) -> Option<Self> {
        let mut properties = BTreeMap::new();
        for (name, property) in schema.members("/properties") {
            if let Some(tree) = Self::at(property, Level::of(property)) {
                properties.insert(name.to_string(), tree);
            }
        }
        let below = |key: &str| {
            let schema = schema.get(key).filter(|schema| schema.is_object())?;
            Self::at(schema, Level::of(schema)).map(Box::new)
        };
        let (additional, items) = (below("additionalProperties"), below("items"));
        let sources: Vec<_> = RuleSource::all(schema).collect();
        if sources.is_empty() && properties.is_empty() && additional.is_none() && items.is_none() {
            return None;
        }
        let mut tree = Self {
            rules: Vec::new(),
            schema: None,
            type_name: schema.text("/type").into(),
            list_keys: (schema.text("/x-kubernetes-list-type") == "map")
                .then(|| schema.texts("/x-kubernetes-list-map-keys").map(Into::into).collect()),
            properties,
            additional,
            items,
        };
        if !sources.is_empty() {
            let view = level.view(schema);
            let environments = RuleEnvironments::new(&view);
            tree.rules = sources.iter().map(|source| CompiledRule::new(source, schema, &environments)).collect();
            tree.schema = Some(view);
        }
        Some(tree)
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    pub(crate) fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    /// Returns the maximum cost of evaluating all rules in this tree. A cost of 1 corresponds to the time to process
    /// one byte of a request body.
    pub(crate) fn weight(&self) -> usize {
        const OF_BYTE: u64 = 16;
        usize::try_from(self.estimated_cost().min(OBJECT_BUDGET) / OF_BYTE).unwrap_or(usize::MAX)
    }

    fn estimated_cost(&self) -> u64 {
        let own = self.rules.iter().flatten().map(CompiledRule::estimated_cost);
        let below = self.properties.values().chain(self.additional.as_deref()).chain(self.items.as_deref());
        own.chain(below.map(Self::estimated_cost)).fold(0, u64::saturating_add)
    }
}

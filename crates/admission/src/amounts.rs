//! Adds and compares resource quantities, such as CPU and memory.

use std::collections::BTreeMap;

use pintle_json::Json;
use pintle_schema::quantity::Quantity;

/// Quantities by resource name.
#[derive(Clone, Debug, Default)]
pub struct Amounts(pub BTreeMap<String, Quantity>);

impl Amounts {
    /// Reads the quantities at a JSON pointer. Returns no quantities if the object has no value at the pointer.
    pub fn at(object: &Json, pointer: &str) -> Self {
        let members = object.members(pointer);
        let amount = |value: &Json| match value {
            Json::String(text) => Quantity::parse(text),
            Json::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        };
        Self(members.filter_map(|(name, value)| Some((name.to_string(), amount(value)?))).collect())
    }

    pub fn get(&self, resource: &str) -> Option<Quantity> {
        self.0.get(resource).copied()
    }

    pub fn set(&mut self, resource: impl Into<String>, amount: Quantity) {
        self.0.insert(resource.into(), amount);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub fn add(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let sum = self.get(name).map_or(amount, |known| known.plus(amount));
            self.set(name, sum);
        }
    }

    /// Returns the quantities of the resources that also occur in `other`.
    pub fn restricted_to(&self, other: &Self) -> Self {
        Self(other.0.keys().filter_map(|name| Some((name.clone(), self.get(name)?))).collect())
    }

    /// Copies each quantity from `other` that is absent in `self`, or greater than the quantity in `self`.
    pub fn raise(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            if self.get(name).is_none_or(|known| amount.nanos() > known.nanos()) {
                self.set(name, amount);
            }
        }
    }

    /// Subtracts the quantities in `other`. Negative results become zero.
    pub fn minus(&self, other: &Self) -> Self {
        let rest = |(name, amount): (&str, Quantity)| {
            (name.to_owned(), amount.less(other.get(name).unwrap_or(Quantity::ZERO)))
        };
        Self(self.iter().map(rest).collect())
    }

    /// Returns the quantities that `rule` accepts.
    pub fn filtered(&self, rule: impl Fn(&str, Quantity) -> bool) -> Self {
        Self(self.iter().filter(|(name, amount)| rule(name, *amount)).map(|(name, a)| (name.to_owned(), a)).collect())
    }

    /// Formats the quantities for messages, such as `cpu=1,memory=1Gi`.
    pub fn text(&self) -> String {
        self.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
    }

    /// Formats the quantities as a JSON object.
    pub fn value(&self) -> Json {
        self.iter().map(|(name, amount)| (name, amount.to_string())).collect()
    }
}

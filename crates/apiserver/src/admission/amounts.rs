//! Amounts of several resources, such as CPU and memory, and how they are added and compared.

use std::collections::BTreeMap;

use pintle_json::Json;
use pintle_schema::quantity::Quantity;

/// An amount of each of some resources, in the order of their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts(pub(crate) BTreeMap<String, Quantity>);

impl Amounts {
    /// The amounts at a pointer; none if there is nothing.
    pub(crate) fn at(object: &Json, pointer: &str) -> Self {
        let members = object.members(pointer);
        let amount = |value: &Json| match value {
            Json::String(text) => Quantity::parse(text),
            Json::Number(number) => Quantity::parse(&number.to_string()),
            _ => None,
        };
        Self(members.filter_map(|(name, value)| Some((name.to_string(), amount(value)?))).collect())
    }

    pub(crate) fn get(&self, resource: &str) -> Option<Quantity> {
        self.0.get(resource).copied()
    }

    pub(crate) fn set(&mut self, resource: impl Into<String>, amount: Quantity) {
        self.0.insert(resource.into(), amount);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Adds what is in `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            let sum = self.get(name).map_or(amount, |known| known.plus(amount));
            self.set(name, sum);
        }
    }

    /// The amounts of the resources that `other` has, too.
    pub(crate) fn of_those_in(&self, other: &Self) -> Self {
        Self(other.0.keys().filter_map(|name| Some((name.clone(), self.get(name)?))).collect())
    }

    /// Of each resource, the greater amount.
    pub(crate) fn raise(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            if self.get(name).is_none_or(|known| amount.nanos() > known.nanos()) {
                self.set(name, amount);
            }
        }
    }

    /// What goes beyond `other`; of no resource less than nothing.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        let rest = |(name, amount): (&str, Quantity)| {
            (name.to_owned(), amount.less(other.get(name).unwrap_or(Quantity::ZERO)))
        };
        Self(self.iter().map(rest).collect())
    }

    /// Those that the rule picks.
    pub(crate) fn filtered(&self, rule: impl Fn(&str, Quantity) -> bool) -> Self {
        Self(self.iter().filter(|(name, amount)| rule(name, *amount)).map(|(name, a)| (name.to_owned(), a)).collect())
    }

    /// As messages tell them: `cpu=1,memory=1Gi`.
    pub(crate) fn told(&self) -> String {
        self.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
    }

    /// As objects carry them.
    pub(crate) fn value(&self) -> Json {
        self.iter().map(|(name, amount)| (name, amount.to_string())).collect()
    }
}

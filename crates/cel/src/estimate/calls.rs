//! Estimates the costs of function calls.

use super::sizes::{ITEMS, VALUES};
use super::{CostRange, Estimator};
use crate::ast::{Id, Kind, Literal, operator};
use crate::cost::is_text_order;
use crate::types::Type;

/// The estimated cost of a function call, excluding the evaluation of its arguments.
struct Estimate {
    cost: CostRange,
    size: Option<CostRange>,
}

impl Estimate {
    fn of(cost: CostRange) -> Option<Self> {
        Some(Self { cost, size: None })
    }

    fn one() -> Option<Self> {
        Self::of(CostRange::fixed(1))
    }

    fn sized(cost: CostRange, size: CostRange) -> Option<Self> {
        Some(Self { cost, size: Some(size) })
    }
}

struct Call<'c> {
    id: Id,
    target: Option<Id>,
    args: &'c [Id],
    costs: Vec<CostRange>,
}

impl Estimator<'_> {
    pub(super) fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) -> CostRange {
        if let ("dyn", [arg]) = (function, args) {
            let cost = CostRange::fixed(1).plus(self.cost(*arg));
            self.copy_sizes(id, *arg);
            return cost;
        }
        let costs = args.iter().map(|arg| self.cost(*arg)).collect();
        let overloads = self.checked.overloads(id);
        if overloads.is_empty() {
            return CostRange::fixed(0);
        }
        let receiver = target.map_or(CostRange::fixed(0), |target| self.cost(target));
        let call = Call { id, target, args, costs };
        let mut cost = CostRange { min: u64::MAX, max: 0 };
        let mut size: Option<CostRange> = None;
        for overload in overloads {
            let estimate = self.overload(&call, function, overload.id);
            cost = cost.union(estimate.cost);
            if let Some(more) = estimate.size {
                size = Some(size.map_or(more, |size| size.union(more)));
            }
            let part = match overload.id {
                "index_list" => Some(ITEMS),
                "index_map" => Some(VALUES),
                _ => None,
            };
            if let (Some(part), Some(first)) = (part, args.first()) {
                size = self.entry_size(*first).map(|entries| entries.value);
                let place = self.place(*first).step(part, self.root);
                self.places.insert(id, place);
            }
            if size.is_none() {
                size = self.size(id);
            }
        }
        self.set_size(id, size);
        receiver.plus(cost)
    }

    fn overload(&mut self, call: &Call<'_>, function: &str, overload: &str) -> Estimate {
        let args = call.costs.iter().fold(CostRange::fixed(0), |sum, cost| sum.plus(*cost));
        let found = self.extension(call, overload).or_else(|| self.library(call, function, overload));
        if let Some(found) = found {
            return Estimate { cost: found.cost.plus(args), ..found };
        }
        if let Some(whole) = self.branches(call, overload) {
            return whole;
        }
        let found = self.standard(call, overload).unwrap_or(Estimate { cost: CostRange::fixed(1), size: None });
        Estimate { cost: found.cost.plus(args), ..found }
    }

    /// Estimates calls that may skip some of their arguments, such as `||`.
    fn branches(&mut self, call: &Call<'_>, overload: &str) -> Option<Estimate> {
        match (overload, &*call.costs) {
            ("logical_or" | "logical_and", [left, right]) => {
                Estimate::of(CostRange { min: left.min, max: left.plus(*right).max })
            }
            ("conditional", [condition, yes, no]) => {
                let size = self.size_or_unknown(call.args[1]).union(self.size_or_unknown(call.args[2]));
                let entries = self.entry_size(call.args[1]).zip(self.entry_size(call.args[2]));
                self.set_entry_size(call.id, entries.map(|(yes, no)| yes.union(no)));
                Estimate::sized(condition.plus(yes.union(*no)), size)
            }
            _ => None,
        }
    }

    fn text(&mut self, id: Id) -> CostRange {
        self.size_or_unknown(id).scaled(0.1)
    }

    fn pattern(&mut self, text: Id, pattern: Id) -> CostRange {
        let text = self.size_or_unknown(text).plus(CostRange::fixed(1)).scaled(0.1);
        text.times(self.size_or_unknown(pattern).scaled(0.25))
    }

    fn standard(&mut self, call: &Call<'_>, overload: &str) -> Option<Estimate> {
        match (overload, call.target, call.args) {
            ("string_format", Some(target), _) => Estimate::of(self.text(target)),
            ("string_to_bytes", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                // On overflow, the multiplication wraps around as in cel-go.
                Estimate::sized(size.scaled(0.1), CostRange { max: size.max.wrapping_mul(4), ..size })
            }
            ("bytes_to_string", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                Estimate::sized(size.scaled(0.1), CostRange { min: size.min / 4, ..size })
            }
            ("strings_quote", _, [arg]) => {
                let size = self.size_or_unknown(*arg);
                let quoted = CostRange { min: size.min.wrapping_add(2), max: size.max.wrapping_mul(2).wrapping_add(2) };
                Estimate::sized(size.scaled(0.1), quoted)
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => Estimate::of(self.text(*arg)),
            ("in_list", _, [_, list]) => Estimate::of(self.size_or_unknown(*list)),
            ("matches_string", Some(target), [arg]) => Estimate::of(self.pattern(target, *arg)),
            ("contains_string", Some(target), [arg]) => Estimate::of(self.text(target).times(self.text(*arg))),
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let size = self.size_or_unknown(*left).plus(self.size_or_unknown(*right));
                let entries = self.entry_size(*left).zip(self.entry_size(*right));
                self.set_entry_size(call.id, entries.map(|(left, right)| left.union(right)));
                let cost = if overload == "add_list" { CostRange::fixed(1) } else { size.scaled(0.1) };
                Estimate::sized(cost, size)
            }
            ("equals" | "not_equals", _, [left, right]) => Estimate::of(self.smaller(*left, *right)),
            (_, _, [left, right]) if is_text_order(overload) => Estimate::of(self.smaller(*left, *right)),
            _ => None,
        }
    }

    fn smaller(&mut self, left: Id, right: Id) -> CostRange {
        let max = self.size_or_unknown(left).max.min(self.size_or_unknown(right).max);
        CostRange { min: u64::from(max > 0), max }.scaled(0.1)
    }

    fn extension(&mut self, call: &Call<'_>, overload: &str) -> Option<Estimate> {
        let created =
            |factor: f64, size: CostRange| Estimate::sized(size.scaled(factor).plus(CostRange::fixed(11)), size);
        match (overload, call.target, call.args) {
            ("list_slice", Some(target), [start, end]) => {
                let size = self.size_or_unknown(target);
                let (start, end) = (self.literal(*start, 0), self.literal(*end, size.max));
                created(1.0, CostRange::fixed(end.wrapping_sub(start)))
            }
            ("lists_range", None, [count]) => created(1.0, CostRange::fixed(self.literal(*count, u64::MAX))),
            ("list_reverse", Some(target), []) => created(1.0, self.size_or_unknown(target)),
            ("list_flatten" | "list_flatten_int", Some(target), args) => {
                let depth = args.first().map_or(1, |depth| self.literal(*depth, u64::MAX));
                created(depth as f64, self.size_or_unknown(target))
            }
            ("list_distinct", Some(target), []) => created(2.0, self.squared(target)),
            (_, Some(target), []) if overload.ends_with("_sort") => {
                created(self_compare_factor(overload), self.squared(target))
            }
            (_, Some(_), [keys]) if overload.ends_with("_sortByAssociatedKeys") => {
                created(self_compare_factor(overload), self.squared(*keys))
            }
            (_, _, [left, right]) if overload.starts_with("list_sets_") => {
                let factor = if overload == "list_sets_equivalent_list" { 2.0 } else { 1.0 };
                let pairs = self.size_or_unknown(*left).times(self.size_or_unknown(*right));
                Estimate::of(pairs.scaled(factor).plus(CostRange::fixed(1)))
            }
            _ => None,
        }
    }

    fn squared(&mut self, id: Id) -> CostRange {
        let size = self.size_or_unknown(id);
        size.times(size)
    }

    /// Returns the value of an integer literal, or `otherwise` for other expressions. For a negative literal, returns
    /// 0.
    fn literal(&self, id: Id, otherwise: u64) -> u64 {
        match self.checked.ast.kind(id) {
            Kind::Literal(Literal::Int(number)) => u64::try_from(*number).unwrap_or(0),
            _ => otherwise,
        }
    }

    fn library(&mut self, call: &Call<'_>, function: &str, overload: &str) -> Option<Estimate> {
        match (function, call.target, call.args) {
            ("check", ..) => Estimate::of(CostRange::fixed(350_000)),
            ("fieldSelector" | "labelSelector", _, [selector]) => {
                let size = self.size_or_unknown(*selector);
                let cost = size.scaled(0.5).scaled(50.0).plus(size.scaled(0.1));
                Estimate::of(cost.plus(CostRange::fixed(10)))
            }
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                Estimate::of(self.traversal(target))
            }
            ("url" | "jsonpatch.escapeKey", _, [arg]) => Estimate::sized(self.text(*arg), self.size_or_unknown(*arg)),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                Estimate::sized(self.text(target), self.size_or_unknown(target))
            }
            ("replace", Some(target), [old, new, ..]) => self.replace(target, *old, *new),
            ("split", Some(target), args) => {
                let size = self.size_or_unknown(target);
                // As in kube-apiserver, a negative limit wraps around to a large unsigned number.
                let max = match args.get(1).map(|limit| self.checked.ast.kind(*limit)) {
                    Some(Kind::Literal(Literal::Int(limit))) => *limit as u64,
                    _ => size.max,
                };
                Estimate::sized(size.scaled(0.2), CostRange { min: 0, max })
            }
            ("join", Some(target), args) => self.join(target, args.first().copied()),
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let max = self.size_or_unknown(target).max;
                Estimate::sized(self.pattern(target, *pattern), CostRange { min: 0, max })
            }
            ("ip", ..) if overload == "cidr_ip" => Estimate::one(),
            ("cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [arg, ..]) => {
                Estimate::of(self.text(*arg))
            }
            ("ip.isCanonical", _, [arg]) => Estimate::of(self.size_or_unknown(*arg).scaled(0.2)),
            ("containsIP" | "containsCIDR", _, [other]) => self.contained(function, overload, *other),
            ("validate", _, [arg]) => Estimate::of(self.text(*arg).scaled(32.0)),
            (operator::EQUALS, _, [left, right]) => self.equality(*left, *right),
            _ if costs_one(function) => Estimate::one(),
            _ => None,
        }
    }

    fn contained(&mut self, function: &str, overload: &str, other: Id) -> Option<Estimate> {
        let address = CostRange { min: 4, max: 16 };
        let mut cost = address.plus(address).scaled(0.1);
        if function == "containsCIDR" {
            cost = cost.plus(address.scaled(0.1)).plus(CostRange::fixed(1));
        }
        if overload.ends_with("_string") {
            cost = cost.plus(self.text(other));
        }
        Estimate::of(cost)
    }

    fn item(&self, list: Id) -> Option<(Type, CostRange)> {
        let items = match self.checked.type_of(list) {
            Type::List(items) | Type::Optional(items) => (**items).clone(),
            Type::Map(parts) => parts.0.clone(),
            _ => return None,
        };
        let place = match self.place(list) {
            super::Place::Outside => super::Place::Outside,
            place => place.step(ITEMS, self.root),
        };
        Some((items, place.size().unwrap_or(CostRange::UNKNOWN)))
    }

    fn traversal(&mut self, target: Id) -> CostRange {
        let size = self.size_or_unknown(target);
        match self.item(target) {
            Some((Type::String | Type::Bytes, item)) => size.times(CostRange::fixed(1).plus(item.scaled(0.1))),
            Some(_) => size,
            None => size.scaled(0.1),
        }
    }

    fn join(&mut self, list: Id, separator: Option<Id>) -> Option<Estimate> {
        let count = self.size_or_unknown(list);
        let mut size = self.item(list).map_or(CostRange::fixed(0), |(_, item)| count.times(item));
        if let Some(separator) = separator {
            let separators = CostRange { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
            size = size.plus(self.size_or_unknown(separator).times(separators));
        }
        Estimate::sized(size.scaled(0.1), size)
    }

    fn replace(&mut self, target: Id, old: Id, new: Id) -> Option<Estimate> {
        let size = self.size_or_unknown(target);
        let (old, new) = (self.size_or_unknown(old), self.size_or_unknown(new));
        let quotient = |count: u64, by: u64| (count as f64 / by as f64).ceil() as u64;
        let (max_count, max_kept) = match old.min {
            0 => (size.max.saturating_add(1), size.max),
            old if new.max <= old => (0, size.max),
            old => (quotient(size.max, old), 0),
        };
        let (min_count, min_kept) = match old.max {
            0 => (size.min.saturating_add(1), size.min),
            old if old <= new.min => (0, size.min),
            old => (quotient(size.min, old), 0),
        };
        let count = CostRange { min: min_count, max: max_count };
        let kept = CostRange { min: min_kept, max: max_kept };
        Estimate::sized(size.scaled(0.2), count.times(new).plus(kept))
    }

    fn equality(&mut self, left: Id, right: Id) -> Option<Estimate> {
        let (first, second) = (self.checked.type_of(left), self.checked.type_of(right));
        match first {
            _ if first != second => None,
            Type::Opaque(name) if matches!(&**name, "net.IP" | "net.CIDR") => Estimate::one(),
            Type::Object(name) => match &**name {
                "kubernetes.Quantity" | "kubernetes.Semver" => Estimate::one(),
                "kubernetes.NamedFormat" => Estimate::of(CostRange { min: 1, max: 64 }.scaled(0.1)),
                "kubernetes.URL" => {
                    let max = self.size(right).map_or(1, |size| size.max);
                    Estimate::of(CostRange { min: 1, max }.scaled(0.1))
                }
                name if name.starts_with("kubernetes.authorization.") => Estimate::one(),
                _ => None,
            },
            _ => None,
        }
    }
}

fn self_compare_factor(overload: &str) -> f64 {
    match overload.strip_prefix("list_").and_then(|rest| rest.split('_').next()) {
        Some("string" | "bytes") => 2.1,
        _ => 2.0,
    }
}

fn costs_one(function: &str) -> bool {
    matches!(function, "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name")
        || matches!(function, "allowed" | "reason" | "error" | "errored" | "format.named")
        || matches!(function, "masked" | "prefixLength" | "family" | "isUnspecified" | "isLoopback")
        || matches!(function, "isLinkLocalMulticast" | "isLinkLocalUnicast" | "isGlobalUnicast")
        || matches!(function, "sign" | "asInteger" | "isInteger" | "asApproximateFloat" | "add" | "sub")
        || matches!(function, "isGreaterThan" | "isLessThan" | "compareTo" | "major" | "minor" | "patch")
        || matches!(function, "getScheme" | "getHostname" | "getHost" | "getPort" | "getEscapedPath" | "getQuery")
}

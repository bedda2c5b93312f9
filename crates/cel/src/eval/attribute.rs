//! Evaluates variables, and the fields and items that an expression selects from them.

use super::{Evaluated, Evaluator, is_spent};
use crate::error::Failure;
use crate::meter::Meter;
use crate::plan::{Attribute, Base, Plan, Qualifier, QualifierKey};
use crate::value::{List, Value};

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Required,
    /// The value is optional, as in `.?name`.
    IfPresent,
    /// The expression only tests whether the value is present, as in `has(a.b)`.
    Test,
}

impl<'a, 'e> Evaluator<'a, 'e> {
    /// Evaluates an attribute. Each qualifier, such as `.name`, costs one unit. If `pays_for_variable` is true,
    /// reading the variable also costs one unit.
    pub(super) fn attribute(&mut self, attribute: &'e Attribute, pays_for_variable: bool) -> Evaluated<'a> {
        let resolved = self.resolved(attribute);
        if pays_for_variable && !attribute.test_only && !matches!(attribute.base, Base::Conditional(_)) {
            self.meter.pay(1)?;
        }
        resolved
    }

    fn resolved(&mut self, attribute: &'e Attribute) -> Evaluated<'a> {
        if let Some(found) = self.path(attribute) {
            self.meter.pay(attribute.qualifiers.len() as u64)?;
            return Ok(found);
        }
        let mut value = match &attribute.base {
            Base::Variable(name) => match self.variables.value(name) {
                Some(value) => value?,
                None => return Err(Failure::new(format!("no such attribute(s): {name}"))),
            },
            Base::Local(slot) => self.local(*slot)?,
            Base::Value(plan) => self.eval(plan)?,
            Base::Conditional(parts) => self.conditional(parts)?,
        };
        if attribute.qualifiers.is_empty() {
            return Ok(value);
        }
        let mut optional = false;
        if let Value::Optional(inner) = &value {
            match inner {
                None => return Ok(test_result(attribute, Value::NONE)),
                Some(inner) => value = (**inner).clone(),
            }
            optional = true;
        }
        let last = attribute.qualifiers.len() - 1;
        for (index, qualifier) in attribute.qualifiers.iter().enumerate() {
            optional |= qualifier.optional;
            let test = attribute.test_only && index == last;
            let access = if test {
                Access::Test
            } else if optional {
                Access::IfPresent
            } else {
                Access::Required
            };
            match self.qualified(value, qualifier, access, optional)? {
                Some(found) => value = found,
                None if test => return Ok(Value::Bool(false)),
                None => return Ok(test_result(attribute, Value::NONE)),
            }
            if test {
                return Ok(Value::Bool(true));
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Resolves a path of field names, such as `object.spec.name`, in the caller's data without creating values for
    /// intermediate fields. Returns `None` if the attribute is not a path of field names, or if a field is absent.
    fn path(&mut self, attribute: &'e Attribute) -> Option<Value<'a>> {
        let base = match &attribute.base {
            Base::Variable(name) => self.variables.known(name)?,
            Base::Local(slot) => self.slots.get(*slot)?.as_ref()?.as_ref().ok()?,
            Base::Value(_) | Base::Conditional(_) => return None,
        };
        let Value::Map(map) = base else { return None };
        let (mut node, mut schema) = map.node()?;
        let (last, inner) = attribute.qualifiers.split_last()?;
        for qualifier in inner {
            (node, schema) = match schema {
                None => (node.field(qualifier.name()?)?, None),
                Some(schema) => schema.inner(node, qualifier.name()?)?,
            };
        }
        let found = match schema {
            None => Value::of(node.field(last.name()?)?),
            Some(schema) => schema.field(node, last.name()?, &mut self.meter).ok()??,
        };
        Some(if attribute.test_only { Value::Bool(true) } else { found })
    }

    fn conditional(&mut self, parts: &'e [Plan; 3]) -> Evaluated<'a> {
        let branch = match self.eval(&parts[0])? {
            Value::Bool(true) => &parts[1],
            Value::Bool(false) => &parts[2],
            _ => return Err(Failure::no_overload()),
        };
        match branch {
            // Reading a variable has no cost if the variable alone is a branch of a conditional expression.
            Plan::Attribute(attribute) => self.attribute(attribute, false),
            branch => self.eval(branch),
        }
    }

    /// Applies a qualifier, such as `.name` or `[0]`, to a value and adds its cost.
    fn qualified(
        &mut self,
        value: Value<'a>,
        qualifier: &'e Qualifier,
        access: Access,
        optional: bool,
    ) -> Result<Option<Value<'a>>, Failure> {
        let key = match &qualifier.key {
            QualifierKey::Const(key) => {
                let found = select(&value, key, access, &mut self.meter);
                return self.paid(found, optional);
            }
            QualifierKey::Attribute(attribute) => self.attribute(attribute, false).and_then(valid_key),
            QualifierKey::Computed(plan) => self.eval(plan).and_then(valid_key),
        };
        if is_spent(&key) {
            return Err(Failure::Budget);
        }
        let found = key.and_then(|key| {
            self.meter.hash(&key)?;
            select(&value, &key, access, &mut self.meter)
        });
        self.paid(found, optional)
    }

    fn paid(
        &mut self,
        found: Result<Option<Value<'a>>, Failure>,
        optional: bool,
    ) -> Result<Option<Value<'a>>, Failure> {
        // Selecting an absent value with `.?` or `[?]` has no cost.
        if !optional || matches!(found, Ok(Some(_))) {
            self.meter.pay(1)?;
        }
        found
    }
}

impl Qualifier {
    /// Returns the field name of a qualifier, or `None` if the qualifier is optional or computed.
    fn name(&self) -> Option<&str> {
        match &self.key {
            QualifierKey::Const(Value::String(name)) if !self.optional => Some(name),
            _ => None,
        }
    }
}

/// Returns the result of an attribute if an intermediate value is absent. Returns `false` for the macro `has`.
fn test_result<'a>(attribute: &Attribute, absent: Value<'a>) -> Value<'a> {
    if attribute.test_only { Value::Bool(false) } else { absent }
}

fn valid_key(key: Value<'_>) -> Evaluated<'_> {
    match key {
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_) => Ok(key),
        key => Err(Failure::new(format!("invalid qualifier type: {}", key.go_type()))),
    }
}

fn select<'a>(
    value: &Value<'a>,
    key: &Value<'a>,
    access: Access,
    meter: &mut Meter,
) -> Result<Option<Value<'a>>, Failure> {
    let required = access == Access::Required;
    match value {
        Value::Map(map) => match map.get(key, meter)? {
            None if required => Err(Failure::no_key(key.plain())),
            found => Ok(found),
        },
        Value::List(list) => item(list, key, required, meter),
        Value::Object(object) => {
            let Value::String(name) = key else { return absent(key, required) };
            match (object.field(name), object.type_name()) {
                (Some(found), _) => Ok(Some(found.clone())),
                (None, "JSONPatch") if required => match &**name {
                    "op" | "path" | "from" => Ok(Some("".into())),
                    _ => Ok(Some(Value::Null)),
                },
                (None, _) if required => Ok(Some(Value::Null)),
                (None, _) => Ok(None),
            }
        }
        _ => absent(key, required),
    }
}

fn absent<'a>(key: &Value<'a>, required: bool) -> Result<Option<Value<'a>>, Failure> {
    if required { Err(Failure::no_key(key.plain())) } else { Ok(None) }
}

fn item<'a>(list: &List<'a>, key: &Value<'a>, required: bool, meter: &mut Meter) -> Result<Option<Value<'a>>, Failure> {
    let index = index(key)?;
    match usize::try_from(index).ok().and_then(|index| list.get(index, meter)) {
        Some(item) => item.map(Some),
        None if required => Err(Failure::new(format!("index out of bounds: {}", key.plain()))),
        None => Ok(None),
    }
}

pub(crate) fn index(key: &Value<'_>) -> Result<i64, Failure> {
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => Ok(i64::try_from(*index).unwrap_or(i64::MAX)),
        Value::Double(index) if index.fract() == 0.0 && index.abs() < 9e18 => Ok(*index as i64),
        Value::Double(_) => Err(Failure::new(format!("unsupported index value {} in list", key.plain()))),
        other => Err(Failure::new(format!("unsupported index type '{}' in list", other.type_of().name()))),
    }
}

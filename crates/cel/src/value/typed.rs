//! Converts data to CEL values according to a schema.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{List, Map, Text, Value};
use crate::error::Failure;
use crate::meter::Meter;
use crate::node::{Node, Scalar};
use crate::schema::{Format, Schema, Shape, unescape};
use crate::time::{self, Timestamp};

/// The units of work for parsing a byte of a string that has a format.
const PARSE: u64 = 2;

impl Schema {
    /// Converts data to a CEL value according to this schema.
    ///
    /// # Errors
    ///
    /// Returns kube-apiserver's error message if the data does not conform to the schema.
    pub fn value<'a>(&'a self, node: &'a dyn Node) -> Result<Value<'a>, Failure> {
        let scalar = node.scalar();
        if scalar == Scalar::Null {
            return if self.is_nullable() {
                Ok(Value::Null)
            } else {
                invalid("got null for schema with nullable=false")
            };
        }
        match (self.shape(), scalar) {
            (Shape::IntOrString, Scalar::String(text)) => Ok(Value::String(Text::Borrowed(text))),
            (Shape::IntOrString | Shape::Integer, Scalar::Int(number)) => Ok(Value::Int(number)),
            (Shape::IntOrString, _) => invalid("expected XIntOrString value to be either a string or integer"),
            (Shape::Object(_) | Shape::Map(_) | Shape::Closed, Scalar::Map) => {
                Ok(Value::Map(Map::of(node, Some(self))))
            }
            (Shape::Object(_) | Shape::Map(_) | Shape::Closed, _) => {
                invalid("expected a map for the provided schema with type=object")
            }
            (Shape::List(items), Scalar::List) => self.list(items.is_some(), node),
            (Shape::List(_), _) => invalid("expected an array for the provided schema with type=array"),
            (Shape::String(format), Scalar::String(text)) => string(*format, text),
            (Shape::String(_), _) => invalid(&format!("expected string, got {}", go_type(scalar))),
            (Shape::Number, Scalar::Int(number)) => Ok(Value::Double(number as f64)),
            (Shape::Number, Scalar::Uint(number)) => Ok(Value::Double(number as f64)),
            (Shape::Number, Scalar::Double(number)) => Ok(Value::Double(number)),
            (Shape::Number, _) => invalid(&format!("expected float, got {}", go_type(scalar))),
            (Shape::Integer, _) => invalid(&format!("expected int, got {}", go_type(scalar))),
            (Shape::Boolean, Scalar::Bool(value)) => Ok(Value::Bool(value)),
            (Shape::Boolean, _) => invalid(&format!("expected bool, got {}", go_type(scalar))),
            (Shape::Unknown { preserved: true, .. }, _) => Ok(Value::of(node)),
            (Shape::Unknown { type_name, .. }, _) => Err(Failure::new(format!(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with \
                 x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {type_name}"
            ))),
        }
    }

    /// Converts data like [`value`](Self::value), and counts the work of parsing a string that has a format.
    pub(crate) fn read<'a>(&'a self, node: &'a dyn Node, meter: &mut Meter) -> Result<Value<'a>, Failure> {
        if let (Shape::String(format), Scalar::String(text)) = (self.shape(), node.scalar())
            && *format != Format::Plain
        {
            meter.work((text.len() as u64).saturating_mul(PARSE))?;
        }
        self.value(node)
    }

    fn list<'a>(&'a self, has_items: bool, node: &'a dyn Node) -> Result<Value<'a>, Failure> {
        if !has_items {
            return Err(Failure::new("invalid array type, expected Items with a non-empty Schema"));
        }
        if let Some(kind) = self.unknown_list_kind() {
            let expected = "invalid x-kubernetes-list-type, expected 'map', 'set' or 'atomic' but got";
            return Err(Failure::new(format!("{expected} {kind}")));
        }
        Ok(Value::List(List::of(node, Some(self))))
    }

    /// Returns the data and schema of a field that is an object or a map. `name` is the escaped field name.
    pub(crate) fn inner<'a>(&'a self, node: &'a dyn Node, name: &str) -> Option<(&'a dyn Node, Option<&'a Schema>)> {
        let (field, schema) = self.child(node, name).filter(|(field, _)| field.scalar() == Scalar::Map)?;
        match schema.value(field) {
            Ok(Value::Map(map)) => map.node(),
            _ => None,
        }
    }

    /// Returns the value of a field. `name` is the escaped field name.
    pub(crate) fn field<'a>(
        &'a self,
        node: &'a dyn Node,
        name: &str,
        meter: &mut Meter,
    ) -> Result<Option<Value<'a>>, Failure> {
        self.child(node, name).map(|(field, schema)| schema.read(field, meter)).transpose()
    }

    fn child<'a>(&'a self, node: &'a dyn Node, name: &str) -> Option<(&'a dyn Node, &'a Self)> {
        match self.shape() {
            Shape::Object(properties) => {
                let name = unescape(name)?;
                let (field, schema) = node.field(&name).zip(properties.get(&*name))?;
                (field.scalar() != Scalar::Null).then_some((field, schema))
            }
            Shape::Map(values) => Some((node.field(name)?, values)),
            _ => None,
        }
    }
}

fn invalid<T>(detail: &str) -> Result<T, Failure> {
    Err(Failure::new(format!("invalid data, {detail}")))
}

/// Returns the name of the Go type of the data in kube-apiserver.
fn go_type(scalar: Scalar<'_>) -> &'static str {
    match scalar {
        Scalar::Null => "<nil>",
        Scalar::Bool(_) => "bool",
        Scalar::Int(_) => "int64",
        Scalar::Uint(_) | Scalar::Double(_) => "float64",
        Scalar::String(_) => "string",
        Scalar::List => "[]interface {}",
        Scalar::Map => "map[string]interface {}",
    }
}

fn string(format: Format, text: &str) -> Result<Value<'_>, Failure> {
    match format {
        Format::Plain => Ok(Value::String(Text::Borrowed(text))),
        Format::Byte => {
            let bytes = STANDARD.decode(text);
            let bytes =
                bytes.map_err(|_| Failure::new(format!("Invalid byte formatted string {text}: illegal base64 data")));
            Ok(Value::Bytes(bytes?.into()))
        }
        Format::Date => {
            let time = Timestamp::parse_date(text);
            time.map(Value::Timestamp).ok_or_else(|| Failure::new(format!("Invalid date formatted string {text}")))
        }
        Format::DateTime => {
            let time = time::parse_schema_time(text);
            time.map(Value::Timestamp).ok_or_else(|| Failure::new(format!("Invalid date-time formatted string {text}")))
        }
        Format::Duration => {
            let nanos = time::parse_schema_duration(text);
            let wrong = || Failure::new(format!("Invalid duration {text}: unable to parse {text} as duration"));
            nanos.map(Value::Duration).ok_or_else(wrong)
        }
    }
}

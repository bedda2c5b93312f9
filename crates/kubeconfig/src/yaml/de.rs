//! A serde deserializer for a YAML tree. Errors contain the field and the line, but not the value, which can be a
//! secret.

use std::fmt::{self, Display};
use std::rc::Rc;

use serde::de::{
    self, DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::node::{Content, Member, Node};
use super::scalar::Meaning;

#[derive(Debug, Default)]
pub(super) struct Fault {
    /// A field path, such as `users[0].user.token`.
    path: String,
    line: Option<usize>,
    message: String,
}

impl Fault {
    fn within(mut self, part: &str, line: usize) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = [part, separator, &self.path].concat();
        self.line = self.line.or(Some(line));
        self
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        self.line.map_or(Ok(()), |line| write!(f, " at line {line}"))
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self { message: message.to_string(), ..Self::default() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid type: {}, expected {expected}", kind(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("invalid value: {}, expected {expected}", kind(found)))
    }
}

/// Returns the type of an unexpected value without the value, which can be a secret.
fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "number",
        Unexpected::Str(_) | Unexpected::Char(_) => "string",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "sequence",
        Unexpected::Map => "map",
        _ => "something else",
    }
}

impl<'de> Deserializer<'de> for &Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::List(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Content::Map(members) => visitor.visit_map(Members { members: members.iter(), value: None }),
            Content::Scalar { text, meaning } => match meaning {
                Meaning::Null => visitor.visit_unit(),
                Meaning::Bool(flag) => visitor.visit_bool(*flag),
                Meaning::Text => visitor.visit_str(text),
                Meaning::NoJson => Err(de::Error::custom("infinity and NaN are not supported")),
                Meaning::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                    (Some(number), ..) => visitor.visit_u64(number),
                    (_, Some(number), _) => visitor.visit_i64(number),
                    (.., number) => visitor.visit_f64(number.unwrap_or_default()),
                },
            },
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Scalar { meaning: Meaning::Null, .. } => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Accepts numbers and booleans as strings, because an unquoted name can look like one. kubectl requires quotes in
    /// this case.
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Scalar { text, meaning } if *meaning != Meaning::Null => visitor.visit_str(text),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_string(visitor)
    }

    /// Rejects a list for a struct, because serde would decode the items of the list as the struct's fields.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.content {
            Content::List(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct map enum identifier
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Rc<Node>>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((at, node)) = self.0.next() else { return Ok(None) };
        seed.deserialize(&**node).map(Some).map_err(|fault| fault.within(&format!("[{at}]"), node.line))
    }
}

struct Members<'a> {
    members: std::slice::Iter<'a, Member>,
    value: Option<&'a Member>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.value = self.members.next();
        let Some(member) = self.value else { return Ok(None) };
        seed.deserialize(member.key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let member = self.value.take().ok_or_else(|| de::Error::custom("a value without a key"))?;
        seed.deserialize(&*member.node).map_err(|fault| fault.within(&member.key, member.line))
    }
}

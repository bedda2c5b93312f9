//! OpenAPI schemas, which provide types, size limits for cost estimates, and rules for converting data to values.

mod build;
mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use names::is_reserved;
pub use names::{escape, is_identifier, unescape};

use crate::node::Node;
use crate::types::Type;

/// The structural schema of data, like the schema in a CustomResourceDefinition.
///
/// The schema of a variable determines its type, its maximum size for cost estimates, and the conversion of its data to
/// values. For example, a string of format `date-time` is converted to a timestamp. Expressions cannot access fields
/// without a type.
///
/// ```
/// use pintle_cel::Schema;
/// use serde_json::json;
///
/// let schema = Schema::new(&json!({"type": "object", "properties": {"replicas": {"type": "integer"}}}));
/// assert!(schema.cel_type().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    shape: Shape,
    /// The type of the data in expressions, or `None` if expressions cannot access the data.
    declared: Option<Type>,
    nullable: bool,
    /// The maximum length of a string, or the maximum number of list items or map entries.
    pub(crate) max_elements: u64,
    /// The maximum length of a map's keys. As in kube-apiserver, the keys have no size if the schema does not limit them.
    pub(crate) max_key_length: u64,
    /// The minimum length of a value's JSON, in bytes.
    min_size: u64,
    list: List,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    IntOrString,
    String(Format),
    Number,
    Integer,
    Boolean,
    List(Option<Arc<Schema>>),
    /// An object with declared fields. The keys are the field names in the data.
    Object(BTreeMap<Box<str>, Arc<Schema>>),
    Map(Arc<Schema>),
    /// An object without declared fields.
    Closed,
    Unknown {
        preserved: bool,
        type_name: Box<str>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Plain,
    Byte,
    Date,
    DateTime,
    Duration,
}

#[derive(Clone, Debug)]
enum List {
    Atomic,
    Set,
    Keyed(Vec<Box<str>>),
    Unknown(Box<str>),
}

/// How `==` compares the items of two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind<'a> {
    Atomic,
    Set,
    Keyed(&'a [Box<str>]),
}

/// The fields of all object types that a schema declares, keyed by type name and field name.
pub(crate) type Objects = BTreeMap<Arc<str>, BTreeMap<String, Type>>;

impl Schema {
    /// Returns the type of the data in expressions, or `None` if expressions cannot access the data.
    pub fn cel_type(&self) -> Option<&Type> {
        self.declared.as_ref()
    }

    /// Returns the maximum number of values with this schema in a request of maximum size.
    ///
    /// If a rule is inside a list without a maximum length, kube-apiserver multiplies the cost of the rule by this
    /// number.
    pub fn max_cardinality(&self) -> u64 {
        build::MAX_REQUEST_BYTES / (self.min_size + 1)
    }

    pub(crate) fn items(&self) -> Option<&Schema> {
        match &self.shape {
            Shape::List(items) => items.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn list_kind(&self) -> ListKind<'_> {
        match &self.list {
            List::Set => ListKind::Set,
            List::Keyed(keys) => ListKind::Keyed(keys),
            List::Atomic | List::Unknown(_) => ListKind::Atomic,
        }
    }

    /// Returns the list type in the schema if Kubernetes does not support this list type.
    pub(crate) fn unknown_list_kind(&self) -> Option<&str> {
        match &self.list {
            List::Unknown(kind) => Some(kind),
            List::Atomic | List::Set | List::Keyed(_) => None,
        }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn is_nullable(&self) -> bool {
        self.nullable
    }

    pub(crate) fn has_properties(&self) -> bool {
        matches!(self.shape, Shape::Object(_))
    }

    pub(crate) fn declares(&self, name: &str) -> bool {
        match &self.shape {
            Shape::Object(properties) => properties.contains_key(name),
            Shape::Map(_) => true,
            _ => false,
        }
    }

    /// Returns the schema of a field, item, value or key. The argument `step` is an escaped field name, `@items`,
    /// `@values` or `@keys`.
    pub(crate) fn part(&self, step: &str) -> Option<&Schema> {
        match (&self.shape, step) {
            (Shape::List(items), "@items" | "@values") => items.as_deref(),
            (Shape::Map(values), "@items" | "@values") => Some(values),
            // As in kube-apiserver, the size of a field is unknown if its name is an unescaped keyword.
            (Shape::Object(_), field) if is_reserved(field) => None,
            (Shape::Object(properties), field) => {
                let part = properties.get(&*unescape(field)?)?;
                part.declared.is_some().then_some(part)
            }
            _ => None,
        }
    }

    /// Returns `true` if this schema describes a map.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.shape, Shape::Map(_))
    }

    pub(crate) fn declare(&self, objects: &mut Objects) {
        match &self.shape {
            Shape::List(Some(items)) => items.declare(objects),
            Shape::Map(values) => values.declare(objects),
            Shape::Object(properties) => {
                let known = properties.iter().filter_map(|(name, part)| Some((escape(name)?, part.declared.clone()?)));
                let fields = known.collect();
                if let Some(Type::Object(name)) = &self.declared {
                    objects.insert(name.clone(), fields);
                }
                properties.values().for_each(|part| part.declare(objects));
            }
            Shape::Closed => {
                if let Some(Type::Object(name)) = &self.declared {
                    objects.insert(name.clone(), BTreeMap::new());
                }
            }
            _ => {}
        }
    }

    /// Reads the OpenAPI schema of a value.
    ///
    /// Expressions cannot access data that is more than 200 schema levels deep, or whose path is longer than 1,000
    /// bytes.
    pub fn new(schema: &dyn Node) -> Self {
        build::schema(schema, false, "selfType")
    }

    /// Reads the OpenAPI schema of a Kubernetes resource. Expressions can always access the fields `apiVersion`,
    /// `kind`, `metadata.name` and `metadata.generateName`.
    pub fn resource(schema: &dyn Node) -> Self {
        build::schema(schema, true, "selfType")
    }

    /// Works like [`resource`](Self::resource), but the type names begin with `type_name`. Use different type names to
    /// declare several schemas in an environment.
    pub fn named_resource(schema: &dyn Node, type_name: &str) -> Self {
        build::schema(schema, true, type_name)
    }
}

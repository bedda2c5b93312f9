//! OpenAPI schemas. They determine the types in expressions, the sizes for costs, and the values of data.

mod build;
mod names;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) use names::is_reserved;
pub use names::{escape, is_identifier, unescape};

use crate::node::Node;
use crate::types::Type;

/// The structural schema of data, as in a CustomResourceDefinition.
///
/// The schema gives a variable its type, limits the estimated cost, and determines the values of data. For example, a
/// string of format `date-time` becomes a timestamp, and fields without a type are hidden.
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
    /// The type in expressions. `None` if expressions cannot access the data.
    declared: Option<Type>,
    nullable: bool,
    /// The maximum length of strings, or the maximum number of items or entries.
    max_elements: u64,
    /// The minimum length of the data's JSON.
    min_size: u64,
    list: List,
}

#[derive(Clone, Debug)]
enum Shape {
    IntOrString,
    String(Format),
    Number,
    Integer,
    Boolean,
    List(Option<Arc<Schema>>),
    /// An object with declared fields, by their names in the data.
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
enum Format {
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

/// The rule that decides which items of two lists correspond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind<'a> {
    Atomic,
    Set,
    Keyed(&'a [Box<str>]),
}

/// The declared fields of the object types of a schema, by type and field.
pub(crate) type Objects = BTreeMap<Arc<str>, BTreeMap<String, Type>>;

impl Schema {
    /// Returns the type in expressions. Returns `None` if expressions cannot access the data, because the schema has no
    /// type.
    pub fn cel_type(&self) -> Option<&Type> {
        self.declared.as_ref()
    }

    /// Returns the maximum number of times that data of this schema can occur in one request.
    ///
    /// If a rule is below an unbounded list, kube-apiserver multiplies the cost of the rule by this number.
    pub fn max_cardinality(&self) -> u64 {
        build::MAX_REQUEST_BYTES / (self.min_size + 1)
    }

    pub(crate) fn max_elements(&self) -> u64 {
        self.max_elements
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

    pub(crate) fn has_properties(&self) -> bool {
        matches!(self.shape, Shape::Object(_))
    }

    /// Whether a field of the data has a schema.
    pub(crate) fn declares(&self, name: &str) -> bool {
        match &self.shape {
            Shape::Object(properties) => properties.contains_key(name),
            Shape::Map(_) => true,
            _ => false,
        }
    }

    /// Returns the schema after one step of a path. A step is a field name as in expressions, `@items`, `@values` or
    /// `@keys`.
    pub(crate) fn part(&self, step: &str) -> Option<&Schema> {
        match (&self.shape, step) {
            (Shape::List(items), "@items" | "@values") => items.as_deref(),
            (Shape::Map(values), "@items" | "@values") => Some(values),
            // As in kube-apiserver, keywords have no size unless they are escaped.
            (Shape::Object(_), field) if is_reserved(field) => None,
            (Shape::Object(properties), field) => {
                let part = properties.get(&*unescape(field)?)?;
                part.declared.is_some().then_some(part)
            }
            _ => None,
        }
    }

    /// Whether this is the schema of a map. The keys of a map have no separate limit.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.shape, Shape::Map(_))
    }

    /// Adds the object types of this schema.
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

    /// Reads the schema of a value.
    ///
    /// Parts deeper than 200 levels, or with a path of more than 1,000 bytes, are invisible to expressions.
    pub fn new(schema: &dyn Node) -> Self {
        build::schema(schema, false, "selfType")
    }

    /// Reads the schema of a resource, whose `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` are always visible.
    pub fn resource(schema: &dyn Node) -> Self {
        build::schema(schema, true, "selfType")
    }

    /// Reads the schema of a resource as [`resource`](Self::resource) does, with a name for its type. The names of the types of its parts
    /// begin with this name, so an environment can declare several schemas with different names.
    pub fn named_resource(schema: &dyn Node, type_name: &str) -> Self {
        build::schema(schema, true, type_name)
    }
}

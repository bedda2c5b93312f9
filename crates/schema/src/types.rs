//! The types that values of objects have: scalars, structs, maps and lists.

use std::ops::Deref;
use std::sync::Arc;

use pintle_json::Json;

use super::builtin_types;

/// What a value is.
#[derive(Clone, Debug)]
pub enum Type {
    /// JSON of any shape. To server-side apply its maps are merged and its lists are atomic.
    Any,
    /// A single value.
    Scalar(Scalar),
    /// A map with known fields. `atomic` tells whether server-side apply owns it as a whole.
    Struct {
        /// The fields.
        of: StructRef,
        /// Whether it is owned as a whole.
        atomic: bool,
    },
    /// A map from any text.
    Map(Arc<MapType>),
    /// A list.
    List(Arc<ListType>),
    /// One of the unions in the JSON schemas of custom resource definitions.
    Union(Union),
}

/// The kinds of single values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// Text.
    String,
    /// true or false.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// Any number.
    Number,
    /// An amount with a unit, such as `500m`.
    Quantity,
    /// An amount in a resource list, which kube-apiserver rounds up to a milli.
    ResourceQuantity,
    /// A whole number, or text.
    IntOrString,
    /// A time in whole seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// A length of time, such as `1h0m0s`.
    Duration,
    /// Bytes, in base64.
    Bytes,
    /// Any single value.
    Untyped,
    /// JSON of any shape, taken as a single value.
    Raw,
}

/// A JSON schema, or else something simpler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Union {
    /// … or true or false.
    Bool,
    /// … or a list of schemas.
    List,
    /// … or a list of names.
    Strings,
}

/// The type of a map.
#[derive(Debug)]
pub struct MapType {
    /// What the values are.
    pub value: Type,
    /// Whether server-side apply owns the map as a whole.
    pub atomic: bool,
}

/// The type of a list.
#[derive(Debug)]
pub struct ListType {
    /// What the items are.
    pub item: Type,
    /// How server-side apply tells the items from each other.
    pub topology: Topology,
}

/// How server-side apply tells the items of a list from each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// It does not: the list is owned as a whole.
    Atomic,
    /// By their values.
    Set,
    /// By some of their fields.
    Keyed(Vec<ListKey>),
}

/// One of the fields that tell the items of a list from each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ListKey {
    /// The field.
    pub name: String,
    /// The value that an item has which leaves it out.
    pub default: Option<Json>,
}

/// A map with known fields.
#[derive(Debug, Default)]
pub struct Struct {
    /// What the table calls it, such as `core.PodSpec`; empty for those of custom resources.
    pub name: &'static str,
    /// The fields, in Go's order.
    pub fields: Vec<Field>,
    /// What other fields are; `None` where there are no others.
    pub rest: Option<Type>,
    /// The places of the fields that protobuf has, in the order of their numbers.
    pub numbered: Vec<usize>,
    /// The places of the fields that are always written.
    pub(super) always: Vec<usize>,
    /// The lengths of the names and the places of the fields, the shortest first: most lengths tell names apart without a look at them.
    by_name: Vec<(usize, usize)>,
}

impl Struct {
    /// A struct of these fields.
    pub fn new(name: &'static str, mut fields: Vec<Field>, rest: Option<Type>) -> Self {
        fields.shrink_to_fit();
        let mut by_name: Vec<_> = fields.iter().enumerate().map(|(at, field)| (field.name.len(), at)).collect();
        by_name.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| fields[one.1].name.cmp(&fields[other.1].name))
        });
        let mut numbered: Vec<_> = (0..fields.len()).filter(|&at| !fields[at].number.is_empty()).collect();
        numbered.sort_unstable_by_key(|&at| &fields[at].number);
        let always = (0..fields.len()).filter(|&at| fields[at].always).collect();
        Self { name, fields, rest, numbered, always, by_name }
    }

    /// What Go calls it, such as `v1.PodSpec`; empty for those of custom resources.
    pub fn go_name(&self) -> String {
        match self.group_version() {
            Some((_, version)) => format!("{version}.{}", self.short_name()),
            None => self.name.into(),
        }
    }

    /// Its name alone, such as `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// The first word of its group, and its version.
    pub(crate) fn group_version(&self) -> Option<(&'static str, &'static str)> {
        let (package, _) = self.name.rsplit_once('.')?;
        Some(package.split_once('.').unwrap_or((package, "v1")))
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(self.place(name)?)
    }

    /// Where among the fields the one of this name is.
    pub fn place(&self, name: &str) -> Option<usize> {
        let found = self.by_name.binary_search_by(|(length, at)| {
            length.cmp(&name.len()).then_with(|| self.fields[*at].name.as_str().cmp(name))
        });
        found.ok().map(|found| self.by_name[found].1)
    }
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: String,
    /// What it is.
    pub of: Type,
    /// Whether Go tells an absent value from an empty one.
    pub pointer: bool,
    /// Whether Go writes the field even when it is empty.
    pub always: bool,
    /// Whether an object without it is incomplete.
    pub required: bool,
    /// How strategic merge patches treat it.
    pub merge: Merge,
    /// Its number in protobuf, after that of the message around it if there is one; empty where protobuf does not have it.
    pub number: Vec<u32>,
}

/// How a strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// A list is merged: by `key`, or, for single values, by value.
    pub lists: bool,
    /// The struct is replaced.
    pub replace: bool,
    /// Fields that the patch does not name in `$retainKeys` are dropped.
    pub retain_keys: bool,
    /// The field that tells the items of a merged list apart.
    pub key: Option<String>,
}

/// A struct, wherever it lives.
#[derive(Clone)]
pub struct StructRef(StructHome);

#[derive(Clone)]
enum StructHome {
    /// In the table of the built-in types. They may refer to themselves.
    BuiltIn(u16),
    /// In the schema of a custom resource.
    Custom(Arc<Struct>),
}

impl StructRef {
    pub(crate) fn built_in(at: u16) -> Self {
        Self(StructHome::BuiltIn(at))
    }

    pub(crate) fn custom(of: Struct) -> Self {
        Self(StructHome::Custom(Arc::new(of)))
    }
}

impl Deref for StructRef {
    type Target = Struct;

    fn deref(&self) -> &Struct {
        match &self.0 {
            StructHome::BuiltIn(at) => builtin_types::table().at(*at),
            StructHome::Custom(of) => of,
        }
    }
}

impl std::fmt::Debug for StructRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the fields: a struct may contain itself.
        f.debug_tuple("StructRef").field(&self.name).finish()
    }
}

impl Type {
    /// The type below a key of a struct or map, or of JSON of any shape; `None` where the type knows no such field.
    pub fn child(&self, key: &str) -> Option<&Type> {
        match self {
            Self::Any => Some(self),
            Self::Struct { of, .. } => of.field(key).map(|field| &field.of).or(of.rest.as_ref()),
            Self::Map(map) => Some(&map.value),
            Self::Scalar(_) | Self::List(_) | Self::Union(_) => None,
        }
    }

    /// Whether the key is a field of a struct, rather than a key of a map.
    pub fn names(&self, key: &str) -> bool {
        matches!(self, Self::Struct { of, .. } if of.field(key).is_some())
    }

    /// The field of a struct.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match self {
            Self::Struct { of, .. } => of.field(name),
            _ => None,
        }
    }

    /// A map from any text to this type.
    pub fn map_of(value: Type) -> Self {
        Self::Map(Arc::new(MapType { value, atomic: false }))
    }

    /// A list of this type, owned as a whole.
    pub fn list_of(item: Type) -> Self {
        Self::List(Arc::new(ListType { item, topology: Topology::Atomic }))
    }

    /// The same type, owned as a whole or item by item.
    pub(super) fn with_atomic(self, atomic: bool) -> Self {
        match self {
            Self::Struct { of, .. } => Self::Struct { of, atomic },
            Self::Map(map) => Self::Map(Arc::new(MapType { value: map.value.clone(), atomic })),
            other => other,
        }
    }

    /// The same list, with this topology.
    pub(super) fn with_topology(self, topology: Topology) -> Self {
        match self {
            Self::List(list) => Self::List(Arc::new(ListType { item: list.item.clone(), topology })),
            other => other,
        }
    }
}

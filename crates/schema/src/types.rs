//! The types of values in Kubernetes objects: scalars, structs, maps and lists.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pintle_json::Json;

/// The type of a value.
#[derive(Clone, Debug)]
pub enum Type {
    /// JSON without declared types. In server-side apply, nested maps are merged and nested lists are atomic.
    Any,
    /// A scalar.
    Scalar(Scalar),
    /// A map with known fields.
    Struct {
        /// The struct with the fields.
        struct_type: StructRef,
        /// Whether the struct is atomic in server-side apply, which means that all of its fields have the same owners.
        atomic: bool,
    },
    /// A map with arbitrary keys.
    Map(Arc<MapType>),
    /// A list of items.
    List(Arc<ListType>),
    /// A value of one of several types. Only the JSON schemas of CustomResourceDefinitions contain such values.
    Union(Union),
}

/// The types of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// Any number.
    Number,
    /// A quantity, such as `500m`.
    Quantity,
    /// A quantity in a resource list, which kube-apiserver rounds up to a multiple of `1m`.
    ResourceQuantity,
    /// An integer or a string.
    IntOrString,
    /// A time with a precision of one second.
    Time,
    /// A time with a precision of one microsecond.
    MicroTime,
    /// A duration in Go's format, such as `1h0m0s`.
    Duration,
    /// A byte string, encoded in base64.
    Bytes,
    /// Arbitrary JSON that is atomic in server-side apply.
    Raw,
}

/// The type of a field that contains either a JSON schema or another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Union {
    /// A schema or a boolean.
    Bool,
    /// A JSON schema or a list of JSON schemas.
    List,
    /// A JSON schema or a list of names.
    Strings,
}

/// A map type.
#[derive(Debug)]
pub struct MapType {
    /// The type of the values.
    pub value: Type,
    /// Whether the map is atomic in server-side apply, which means that all members have the same owners.
    pub atomic: bool,
}

/// A list type.
#[derive(Debug)]
pub struct ListType {
    /// The type of the items.
    pub item: Type,
    /// How server-side apply identifies the items.
    pub topology: Topology,
}

/// How server-side apply identifies the items of a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// The items are not identified, and all items of the list have the same owners.
    Atomic,
    /// Each list item is identified by its value.
    Set,
    /// Each list item is identified by the values of its key fields.
    Keyed(Vec<ListKey>),
}

/// A key field of a list. All key fields together identify an item.
#[derive(Clone, Debug, PartialEq)]
pub struct ListKey {
    /// The JSON name of the field.
    pub name: String,
    /// The default value for items that omit this field.
    pub default: Option<Json>,
}

/// A map with known fields.
#[derive(Debug, Default)]
pub struct Struct {
    /// The name in the type table, such as `core.PodSpec`, or an empty string for a struct of a custom resource.
    pub name: &'static str,
    /// The fields, in Go's order.
    pub fields: Vec<Field>,
    /// The type of all members that are not in `fields`. If `None`, the struct has no other members.
    pub rest: Option<Type>,
    /// Whether a value can also be a scalar or a list, because the schema of a custom resource has no `type`.
    pub is_typeless: bool,
    /// The indices of the fields in the protobuf message, sorted by field number.
    pub numbered: Vec<usize>,
    /// The indices of the fields that Go's JSON encoder writes even if they are empty.
    pub(super) always: Vec<usize>,
    /// The name length and index of each field, sorted by length and then by name. Because of this order, most lookups
    /// only compare lengths.
    by_name: Vec<(usize, usize)>,
}

impl Struct {
    /// Creates a struct from its fields. `rest` is the type of all members that are not in `fields`.
    pub fn new(name: &'static str, mut fields: Vec<Field>, rest: Option<Type>) -> Self {
        fields.shrink_to_fit();
        let mut by_name: Vec<_> = fields.iter().enumerate().map(|(at, field)| (field.name.len(), at)).collect();
        by_name.sort_unstable_by(|one, other| {
            one.0.cmp(&other.0).then_with(|| fields[one.1].name.cmp(&fields[other.1].name))
        });
        let mut numbered: Vec<_> = (0..fields.len()).filter(|&at| !fields[at].number.is_empty()).collect();
        numbered.sort_unstable_by_key(|&at| &fields[at].number);
        let always = (0..fields.len()).filter(|&at| fields[at].always).collect();
        Self { name, fields, rest, is_typeless: false, numbered, always, by_name }
    }

    /// Returns the name of the struct in Go, such as `v1.PodSpec`, or an empty string for a struct of a custom
    /// resource.
    pub fn go_name(&self) -> String {
        match self.group_version() {
            Some((_, version)) => format!("{version}.{}", self.short_name()),
            None => self.name.into(),
        }
    }

    /// Returns the name of the struct without group and version, such as `PodSpec`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the group and version in the name of the struct, such as `apps` and `v1`. The group is only the first
    /// segment of the API group, such as `networking` for `networking.k8s.io`.
    pub(crate) fn group_version(&self) -> Option<(&'static str, &'static str)> {
        let (package, _) = self.name.rsplit_once('.')?;
        Some(package.split_once('.').unwrap_or((package, "v1")))
    }

    /// Returns the field `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(self.field_index(name)?)
    }

    /// Returns the index of the field `name` in `fields`.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        let found = self.by_name.binary_search_by(|(length, at)| {
            length.cmp(&name.len()).then_with(|| self.fields[*at].name.as_str().cmp(name))
        });
        found.ok().map(|found| self.by_name[found].1)
    }
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// The JSON name of the field.
    pub name: String,
    /// The type of the value.
    pub ty: Type,
    /// Whether Go distinguishes an absent value of the field from an empty value.
    pub pointer: bool,
    /// Whether Go writes the field even if the value is empty.
    pub always: bool,
    /// Whether the decoder keeps an empty list. The server treats such a list differently from an absent list, although
    /// Go does not write either of them.
    pub keeps_empty: bool,
    /// Whether OpenAPI schemas list the field as required.
    pub required: bool,
    /// How strategic merge patches merge the field.
    pub merge: Merge,
    /// The field numbers in protobuf: first the numbers of the embedded messages that contain the field, and then the
    /// number of the field. Empty if the field does not exist in protobuf.
    pub number: Vec<u32>,
}

/// How a strategic merge patch merges a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// The patch merges the list by `key`, or by value if the items are scalars.
    pub lists: bool,
    /// The patch replaces the whole struct instead of merging its fields.
    pub replace: bool,
    /// The patch drops all fields of the struct that its `$retainKeys` does not list.
    pub retain_keys: bool,
    /// The field that identifies list items in patches.
    pub key: Option<String>,
}

/// A reference to a struct.
#[derive(Clone)]
pub struct StructRef(StructHome);

#[derive(Clone)]
enum StructHome {
    /// The slot of a built-in struct in the type table. With a slot, a struct can contain its own type.
    BuiltIn(&'static OnceLock<Struct>),
    Custom(Arc<Struct>),
}

impl StructRef {
    /// Creates a reference to a built-in struct. The caller must fill the slot before the first use of the reference.
    pub(crate) fn built_in(slot: &'static OnceLock<Struct>) -> Self {
        Self(StructHome::BuiltIn(slot))
    }

    pub(crate) fn custom(struct_type: Struct) -> Self {
        Self(StructHome::Custom(Arc::new(struct_type)))
    }
}

impl Deref for StructRef {
    type Target = Struct;

    fn deref(&self) -> &Struct {
        match &self.0 {
            // The type table fills all slots before it returns the first type.
            StructHome::BuiltIn(slot) => slot.get().expect("the type table is complete"),
            StructHome::Custom(struct_type) => struct_type,
        }
    }
}

impl std::fmt::Debug for StructRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Print only the name, because a struct can contain its own type.
        f.debug_tuple("StructRef").field(&self.name).finish()
    }
}

impl Type {
    /// Returns the type of the member `key` of a struct, a map or arbitrary JSON. Returns `None` if values of this type
    /// cannot have this member.
    pub fn child(&self, key: &str) -> Option<&Type> {
        match self {
            Self::Any => Some(self),
            Self::Struct { struct_type, .. } => {
                struct_type.field(key).map(|field| &field.ty).or(struct_type.rest.as_ref())
            }
            Self::Map(map) => Some(&map.value),
            Self::Scalar(_) | Self::List(_) | Self::Union(_) => None,
        }
    }

    /// Returns `true` if the type is a struct with a field `key`. Returns `false` for maps.
    pub fn names(&self, key: &str) -> bool {
        matches!(self, Self::Struct { struct_type, .. } if struct_type.field(key).is_some())
    }

    /// Returns `true` for an object without declared fields whose members can have any value.
    pub fn is_free_form(&self) -> bool {
        match self {
            Self::Any => true,
            Self::Struct { struct_type, .. } => {
                struct_type.fields.is_empty() && matches!(struct_type.rest, Some(Self::Any))
            }
            Self::Map(map) => matches!(map.value, Self::Any),
            Self::Scalar(_) | Self::List(_) | Self::Union(_) => false,
        }
    }

    /// Returns `true` for an atomic struct, map or list.
    pub fn is_atomic(&self) -> bool {
        match self {
            Self::Struct { atomic, .. } => *atomic,
            Self::Map(map) => map.atomic,
            Self::List(list) => list.topology == Topology::Atomic,
            Self::Any | Self::Scalar(_) | Self::Union(_) => false,
        }
    }

    /// Returns the field `name` if the type is a struct.
    pub fn field(&self, name: &str) -> Option<&Field> {
        match self {
            Self::Struct { struct_type, .. } => struct_type.field(name),
            _ => None,
        }
    }

    /// Creates a map type.
    pub fn map_of(value: Type) -> Self {
        Self::Map(Arc::new(MapType { value, atomic: false }))
    }

    /// Creates an atomic list type.
    pub fn list_of(item: Type) -> Self {
        Self::List(Arc::new(ListType { item, topology: Topology::Atomic }))
    }

    pub(super) fn with_atomic(self, atomic: bool) -> Self {
        match self {
            Self::Struct { struct_type, .. } => Self::Struct { struct_type, atomic },
            Self::Map(map) => Self::Map(Arc::new(MapType { value: map.value.clone(), atomic })),
            other => other,
        }
    }

    pub(super) fn with_topology(self, topology: Topology) -> Self {
        match self {
            Self::List(list) => Self::List(Arc::new(ListType { item: list.item.clone(), topology })),
            other => other,
        }
    }
}

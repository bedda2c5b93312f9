//! The table of built-in types, parsed from `types.txt` on first use.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::types::{Field, ListKey, Merge, Scalar, Struct, StructRef, Topology, Type, Union};

const TEXT: &str = include_str!("types.txt");

/// The start of the permitted values in the line of a field. A value can contain spaces.
const ENUM: &str = " enum=";

pub(super) struct BuiltinTypes {
    /// The structs. Each [`StructRef`] contains a reference to its slot.
    structs: &'static [OnceLock<Struct>],
    names: HashMap<&'static str, u16>,
    atomic: Vec<bool>,
    kinds: HashMap<(&'static str, &'static str), &'static str>,
}

pub(super) fn table() -> &'static BuiltinTypes {
    static TABLE: OnceLock<BuiltinTypes> = OnceLock::new();
    TABLE.get_or_init(|| BuiltinTypes::read(TEXT))
}

impl BuiltinTypes {
    /// Returns the type of the objects of a kind. `version` has the form `version` or `group/version`.
    pub(super) fn kind(&self, version: &str, kind: &str) -> Option<Type> {
        self.named(self.kinds.get(&(version, kind))?)
    }

    /// Maps each type name to the version and name of its kind.
    pub(super) fn types_of_kinds(&self) -> HashMap<&'static str, (&'static str, &'static str)> {
        self.kinds.iter().map(|(kind, ty)| (*ty, *kind)).collect()
    }

    /// Maps each type name and field name to the permitted values of the field or of its list items. The type table does not
    /// store these values, because only OpenAPI documents contain them.
    pub(super) fn enums() -> HashMap<(&'static str, &'static str), Vec<&'static str>> {
        let (mut enums, mut type_name) = (HashMap::new(), "");
        for line in TEXT.lines() {
            let name = line.trim_start().split([' ', '!']).next().unwrap_or_default();
            if !line.starts_with(' ') {
                type_name = name;
            } else if let Some((_, values)) = line.split_once(ENUM) {
                enums.insert((type_name, name), values.split(',').collect());
            }
        }
        enums
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.keys().copied()
    }

    #[cfg(test)]
    pub(super) fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        let mut kinds: Vec<_> = self.kinds.keys().copied().collect();
        kinds.sort_unstable();
        kinds
    }

    pub(super) fn named(&self, name: &str) -> Option<Type> {
        let at = usize::from(*self.names.get(name)?);
        Some(Type::Struct { struct_type: StructRef::built_in(&self.structs[at]), atomic: self.atomic[at] })
    }

    fn read(text: &'static str) -> Self {
        let mut table = Self { structs: &[], names: HashMap::new(), atomic: Vec::new(), kinds: HashMap::new() };
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        // Collect the struct names first, because a struct can refer to a struct that is defined later.
        for line in lines().filter(|line| !line.starts_with([' '])) {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next(), words.next()) {
                (Some("kind"), Some(version), Some(kind), Some(ty)) => {
                    table.kinds.insert((version, kind), ty);
                }
                (Some(name), atomic, ..) => {
                    table.names.insert(name, table.atomic.len() as u16);
                    table.atomic.push(atomic == Some("atomic"));
                }
                (None, ..) => {}
            }
        }
        // The slots live as long as the program, like the table.
        table.structs = Box::leak(table.atomic.iter().map(|_| OnceLock::new()).collect());
        let mut slots = table.structs.iter();
        let mut fill = |(name, fields): (&'static str, Vec<Field>)| {
            if let Some(slot) = slots.next() {
                slot.get_or_init(|| Struct::new(name, fields, None));
            }
        };
        let mut current: Option<(&str, Vec<Field>)> = None;
        for line in lines().filter(|line| !line.starts_with("kind ")) {
            match (line.strip_prefix(' '), &mut current) {
                (Some(line), Some((_, fields))) => fields.extend(table.field(line)),
                (Some(_), None) => {}
                (None, _) => {
                    let name = line.split(' ').next().unwrap_or_default();
                    if let Some(complete) = current.replace((name, Vec::new())) {
                        fill(complete);
                    }
                }
            }
        }
        if let Some(complete) = current {
            fill(complete);
        }
        table
    }

    /// Parses a line of the type table, in the form `name[!] type [words] [enum=values]`.
    fn field(&self, line: &str) -> Option<Field> {
        let mut words = line.split_once(ENUM).map_or(line, |(line, _)| line).split(' ');
        let (name, ty) = (words.next()?, words.next()?);
        let (name, always) = name.strip_suffix('!').map_or((name, false), |name| (name, true));
        let (ty, pointer) = ty.strip_prefix('*').map_or((ty, false), |ty| (ty, true));
        let mut field = Field {
            name: name.into(),
            ty: self.parse_type(ty)?,
            pointer,
            always,
            keeps_empty: false,
            required: false,
            merge: Merge::default(),
            number: Vec::new(),
        };
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("map", keys) => {
                    field.ty = field.ty.with_topology(Topology::Keyed(keys.split(',').map(list_key).collect()));
                }
                (number, _) if number.starts_with('#') => {
                    field.number = number[1..].split('.').filter_map(|part| part.parse().ok()).collect();
                }
                ("kept", _) => field.keeps_empty = true,
                ("required", _) => field.required = true,
                ("set", _) => field.ty = field.ty.with_topology(Topology::Set),
                ("atomic", _) => field.ty = field.ty.with_atomic(true),
                ("granular", _) => field.ty = field.ty.with_atomic(false),
                ("merge", _) => field.merge.lists = true,
                ("replace", _) => field.merge.replace = true,
                ("retainKeys", _) => field.merge.retain_keys = true,
                ("key", key) => field.merge.key = Some(key.into()),
                _ => {}
            }
        }
        Some(field)
    }

    fn parse_type(&self, text: &str) -> Option<Type> {
        let scalar = match text {
            "string" => Scalar::String,
            "bool" => Scalar::Bool,
            "int32" => Scalar::Int32,
            "int64" => Scalar::Int64,
            "float64" => Scalar::Number,
            "quantity" => Scalar::Quantity,
            "resource" => Scalar::ResourceQuantity,
            "intstr" => Scalar::IntOrString,
            "time" => Scalar::Time,
            "microtime" => Scalar::MicroTime,
            "duration" => Scalar::Duration,
            "bytes" => Scalar::Bytes,
            "raw" => Scalar::Raw,
            "any" => return Some(Type::Any),
            "schema-or-bool" => return Some(Type::Union(Union::Bool)),
            "schema-or-list" => return Some(Type::Union(Union::List)),
            "schema-or-strings" => return Some(Type::Union(Union::Strings)),
            _ => {
                return match text.split_at(1) {
                    ("*", rest) => self.parse_type(rest),
                    ("[", rest) => Some(Type::list_of(self.parse_type(rest)?)),
                    ("{", rest) => Some(Type::map_of(self.parse_type(rest)?)),
                    _ => self.named(text),
                };
            }
        };
        Some(Type::Scalar(scalar))
    }
}

/// Parses a list key with the form `name[:default]`. The default value in a list key is JSON.
fn list_key(text: &str) -> ListKey {
    let (name, default) = text.split_once(':').unwrap_or((text, ""));
    ListKey { name: name.into(), default: serde_json::from_str(default).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_parsed() {
        let fields = TEXT.lines().filter(|line| line.starts_with(' ')).count();
        let structs: Vec<_> = table().structs.iter().filter_map(OnceLock::get).collect();
        assert_eq!(structs.iter().map(|ty| ty.fields.len()).sum::<usize>(), fields);
        assert_eq!(structs.len(), table().atomic.len());
        for (key, name) in &table().kinds {
            assert!(table().named(name).is_some(), "{key:?}: no type {name}");
        }
        let most = structs.iter().map(|ty| ty.fields.len()).max();
        assert!(most <= Some(128), "`StructFields` has 128 bits for the fields seen");
        for line in TEXT.lines().filter(|line| line.starts_with(' ')) {
            let line = line.split_once(ENUM).map_or(line, |(line, _)| line);
            for word in line[1..].split(' ').skip(2).filter(|word| !word.starts_with('#')) {
                let name = word.split('=').next().unwrap();
                assert!(
                    ["map", "set", "atomic", "granular", "merge", "replace", "retainKeys", "key", "kept", "required"]
                        .contains(&name)
                );
            }
        }
    }
}

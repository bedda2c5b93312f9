//! Parses the short descriptions of built-in types and their fields. The file with the descriptions is parsed again for
//! each OpenAPI document.

use std::collections::HashMap;

const TEXT: &str = include_str!("descriptions.txt");

/// Maps a type name and a field name to a description. An empty field name maps to the description of the type.
pub(super) struct Descriptions(HashMap<(&'static str, &'static str), &'static str>);

impl Descriptions {
    pub(super) fn read() -> Self {
        let mut all = HashMap::new();
        let mut types: Vec<&str> = Vec::new();
        for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let field = line.strip_prefix(' ');
            let (name, text) = field.unwrap_or(line).split_once(' ').unwrap_or((line, ""));
            if field.is_none() {
                types = name.split(',').collect();
            }
            for ty in &types {
                all.insert((*ty, if field.is_some() { name } else { "" }), text);
            }
        }
        Self(all)
    }

    pub(super) fn of_type(&self, name: &str) -> Option<&'static str> {
        self.0.get(&(name, "")).copied().filter(|text| !text.is_empty())
    }

    pub(super) fn of_field(&self, ty: &str, field: &str) -> Option<&'static str> {
        self.0.get(&(ty, field)).or_else(|| self.0.get(&("*", field))).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_types::table;
    use crate::types::Type;

    const COMPLETE: [&str; 7] = ["core", "apps", "batch", "rbac", "networking", "storage", "meta"];

    #[test]
    fn kinds_and_fields_of_common_groups_have_descriptions() {
        let descriptions = Descriptions::read();
        let mut missing = Vec::new();
        for (version, kind) in table().kinds() {
            let Some(Type::Struct { struct_type, .. }) = table().kind(version, kind) else { continue };
            if descriptions.of_type(struct_type.name).is_none() && !struct_type.name.starts_with("apidiscovery.") {
                missing.push(struct_type.name.to_owned());
            }
        }
        for name in table().names() {
            let Some(Type::Struct { struct_type, .. }) = table().named(name) else { continue };
            let common = COMPLETE.contains(&name.split('.').next().unwrap_or_default());
            let fields =
                struct_type.fields.iter().filter(|field| common && descriptions.of_field(name, &field.name).is_none());
            missing.extend(fields.map(|field| format!("{name}.{}", field.name)));
        }
        missing.sort();
        missing.dedup();
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_description_belongs_to_a_type_or_field() {
        let descriptions = Descriptions::read();
        for (ty, field) in descriptions.0.keys().filter(|(ty, _)| *ty != "*") {
            let Some(Type::Struct { struct_type: known, .. }) = table().named(ty) else { panic!("no type {ty}") };
            let shared = TEXT.lines().any(|line| {
                line.starts_with(ty) && line[ty.len()..].starts_with(',') || line.contains(&format!(",{ty}"))
            });
            assert!(field.is_empty() || known.field(field).is_some() || shared, "{ty} has no field {field}");
        }
    }
}

//! Parses tables with sections for built-in kinds.

use std::sync::LazyLock;

use pintle_kinds::defaults::{self, DefaultValue};
use pintle_kinds::table::TableColumn;

const COLUMNS_TEXT: &str = include_str!("columns.txt");
const DEFAULTS_TEXT: &str = include_str!("defaults.txt");

pub(super) static COLUMNS: LazyLock<Sections<TableColumn>> =
    LazyLock::new(|| Sections::read(COLUMNS_TEXT, TableColumn::read));

pub(super) static DEFAULTS: LazyLock<Sections<DefaultValue>> =
    LazyLock::new(|| Sections::read(DEFAULTS_TEXT, defaults::read));

/// The headings of a table and the entries below each heading.
pub(super) struct Sections<T>(Vec<(&'static str, Vec<T>)>);

impl<T> Sections<T> {
    /// Parses a table. A heading in a table consists of names of kinds, separated by commas. The entries below a
    /// heading are indented by two spaces.
    fn read(text: &'static str, entry: fn(&'static str) -> Option<T>) -> Self {
        let mut sections: Vec<(&str, Vec<T>)> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match (line.strip_prefix("  "), sections.last_mut()) {
                (Some(line), Some((_, entries))) => entries.extend(entry(line)),
                _ => sections.push((line, Vec::new())),
            }
        }
        Self(sections)
    }

    /// Returns the entries for a kind such as `apps/v1 Deployment`, or an empty slice if the kind has no section.
    pub(super) fn of(&self, kind: &str) -> &[T] {
        let section = self.0.iter().find(|(heading, _)| heading.split(", ").any(|known| known == kind));
        section.map_or(&[], |(_, entries)| entries)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use pintle_kinds::Kind;
    use pintle_schema::Type;

    use super::*;

    /// Returns `true` if the kind has this field. The path consists of member names and list indices.
    fn has_field<'a>(kind: &Kind, mut path: impl Iterator<Item = &'a str>) -> bool {
        let Some(schema) = kind.schema() else { return false };
        let step = |ty: Type, step: &str| match ty {
            Type::Struct { struct_type, .. } => struct_type.field(step).map(|field| field.ty.clone()),
            Type::List(list) => step.parse::<usize>().ok().map(|_| list.item.clone()),
            Type::Map(map) => Some(map.value.clone()),
            _ => None,
        };
        path.try_fold(schema.root().clone(), step).is_some()
    }

    /// Checks the headings and entries of a table. If a heading names several kinds, checks the entries only for the
    /// first of them.
    fn check(file: &str, text: &'static str, is_valid: fn(&Kind, &'static str) -> bool) {
        let kinds = crate::coordinated_kinds();
        let find = |name: &str| kinds.kinds().find(|kind| name == format!("{} {}", kind.api_version(), kind.kind));
        let (mut first, mut seen) = (None::<&Arc<Kind>>, HashSet::new());
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#')) {
            let is_valid = match line.strip_prefix("  ") {
                Some(entry) => first.is_some_and(|kind| is_valid(kind, entry)),
                None => {
                    first = line.split(", ").next().and_then(find);
                    line.split(", ").all(|name| find(name).is_some() && seen.insert(name))
                }
            };
            assert!(is_valid, "{file}:{number}: {line}");
        }
    }

    #[test]
    fn columns_show_existing_fields_or_have_functions() {
        check("columns.txt", COLUMNS_TEXT, |kind, line| {
            let Some(column) = TableColumn::read(line) else { return false };
            let functions = kind.strategy.computed_cells();
            let pointer = line.split(' ').find(|word| word.starts_with('/')).unwrap_or_default();
            column.computed().is_none_or(|name| functions.iter().any(|(column, _)| *column == name))
                && has_field(kind, pointer.split('/').skip(1))
        });
    }

    #[test]
    fn every_function_has_a_computed_column() {
        for kind in crate::coordinated_kinds().kinds() {
            let computed = kind.table.iter().filter_map(TableColumn::computed);
            let functions = kind.strategy.computed_cells().iter().map(|(column, _)| *column);
            assert!(functions.eq(computed), "columns.txt: {}", kind.kind);
        }
    }

    #[test]
    fn defaults_set_existing_fields() {
        check("defaults.txt", DEFAULTS_TEXT, |kind, line| {
            let Some((path, _)) = defaults::read(line) else { return false };
            let steps = path.split('.').flat_map(|step| match step.strip_suffix("[]") {
                Some(list) => [Some(list), Some("0")],
                None => [Some(step.trim_end_matches('?')), None],
            });
            has_field(kind, steps.flatten())
        });
    }

    #[test]
    fn field_labels_select_existing_fields() {
        for kind in crate::coordinated_kinds().kinds() {
            let labels = kind.field_labels().into_iter().flatten();
            for path in labels.flat_map(|label| kind.strategy.field_paths(label)) {
                assert!(has_field(kind, path.split('.')), "builtin.txt: {}: {path}", kind.kind);
            }
        }
    }
}

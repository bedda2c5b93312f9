//! The default values of built-in kinds, for fields whose default does not depend on other fields.

use pintle_json::Json;

/// The path of a field, in the format of `defaults.txt` in `pintle-builtin`, and the field's default value.
pub type DefaultValue = (&'static str, Json);

/// Parses a line of `defaults.txt`.
pub fn read(line: &'static str) -> Option<DefaultValue> {
    let (path, value) = line.split_once(" = ")?;
    Some((path, serde_json::from_str(value).ok()?))
}

/// Sets the missing fields of an object to their default values.
pub fn fill(defaults: &[DefaultValue], object: &mut Json) {
    defaults.iter().for_each(|(path, value)| fill_path(object, path, value));
}

fn fill_path(object: &mut Json, path: &str, value: &Json) {
    let Some((step, rest)) = path.split_once('.') else { return fill_member(object, path, value) };
    if let Some(list) = step.strip_suffix("[]") {
        object.items_mut(list).for_each(|item| fill_path(item, rest, value));
        return;
    }
    let member = match step.strip_suffix('?') {
        Some(step) => object.get_mut(step),
        None => object.member(step),
    };
    member.into_iter().for_each(|member| fill_path(member, rest, value));
}

fn fill_member(object: &mut Json, key: &str, value: &Json) {
    let Some(members) = value.as_object() else { return object.set_default(key, value.clone()) };
    if let Some(member) = object.member(key) {
        members.iter().for_each(|(key, value)| fill_member(member, key, value));
    }
}

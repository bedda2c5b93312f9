//! A builder that applies validation rules to an object and collects the errors.

use std::fmt;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors, qualified_name_faults};
use pintle_json::Json;
use pintle_schema::{Scalar, Schema, Type};

/// Applies validation rules to an object and collects the errors. Field arguments are paths as in Kubernetes error
/// messages, such as `spec.ports`.
#[derive(Debug)]
pub struct Check<'a> {
    object: &'a Json,
    prefix: String,
    errors: FieldErrors,
}

impl<'a> Check<'a> {
    /// Creates a check of a whole object.
    pub fn of(object: &'a Json) -> Self {
        Self { object, prefix: String::new(), errors: FieldErrors::default() }
    }

    /// Creates a check of the value at `path` in an object. Error paths begin with `path`.
    pub fn at(object: &'a Json, path: &str) -> Self {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        Self { object, prefix, errors: FieldErrors::default() }
    }

    /// Reports a field that is absent or empty.
    pub fn required(self, field: &str) -> Self {
        self.required_because(field, "")
    }

    /// Reports a field that is absent or empty, with the reason `why`.
    pub fn required_because(mut self, field: &str, why: &str) -> Self {
        if self.value(field).is_none_or(Json::is_empty) {
            self.errors.push(FieldError::required(self.path(field), why));
        }
        self
    }

    /// Reports negative numbers in `fields`.
    pub fn not_negative(self, fields: &[&str]) -> Self {
        fields.iter().fold(self, |check, field| check.at_least(field, 0))
    }

    /// Reports a number that is less than `least`.
    pub fn at_least(mut self, field: &str, least: i64) -> Self {
        if let Some(value) = self.value(field).filter(|value| value.as_i64().is_some_and(|number| number < least)) {
            let why = format!("must be greater than or equal to {least}");
            self.errors.push(FieldError::invalid(self.path(field), value, why));
        }
        self
    }

    /// Reports a non-empty string that is not in `known`.
    pub fn one_of(mut self, field: &str, known: &[&str]) -> Self {
        if let Some(value) = self.value(field).filter(|value| !value.is_empty())
            && !value.as_str().is_some_and(|text| known.contains(&text))
        {
            self.errors.push(FieldError::unsupported(self.path(field), value, known));
        }
        self
    }

    /// Reports a value that is present but not in `known`, such as an empty string.
    pub fn known(mut self, field: &str, known: &[&str]) -> Self {
        if let Some(value) = self.value(field)
            && !value.as_str().is_some_and(|text| known.contains(&text))
        {
            self.errors.push(FieldError::unsupported(self.path(field), value, known));
        }
        self
    }

    /// Reports a field that is absent or empty, or whose value is not in `known`.
    pub fn required_one_of(self, field: &str, known: &[&str]) -> Self {
        self.required(field).one_of(field, known)
    }

    /// Reports a number that is less than `least` or greater than `most`.
    pub fn within(mut self, field: &str, least: i64, most: i64, why: &str) -> Self {
        let outside = |value: &&Json| value.as_i64().is_some_and(|number| !(least..=most).contains(&number));
        if let Some(value) = self.value(field).filter(outside) {
            self.errors.push(FieldError::invalid(self.path(field), value, why));
        }
        self
    }

    /// Reports a field that is absent or empty, or that is not a valid name.
    pub fn required_name(self, field: &str, rule: NameRule) -> Self {
        self.required(field).name(field, rule)
    }

    /// Reports a field that is absent or not a qualified name. Qualified names have the same format as label keys.
    pub fn qualified(mut self, field: &str) -> Self {
        let text = self.object.text(&pointer(field));
        let path = self.path(field);
        let why = qualified_name_faults(text);
        self.errors.extend(why.iter().map(|why| FieldError::invalid_text(path.as_str(), text, why)));
        self
    }

    /// Reports the checked value if it is not a qualified name. Qualified names have the same format as label keys.
    pub fn whole_is_qualified(self) -> Self {
        self.whole(qualified_name_faults)
    }

    /// Reports the checked value if it is empty or not a valid name.
    pub fn whole_is(self, rule: NameRule) -> Self {
        self.whole(|text| name_errors(rule, text, false))
    }

    fn whole(mut self, errors: impl FnOnce(&str) -> Vec<String>) -> Self {
        let text = self.object.as_str().unwrap_or_default();
        let path = self.prefix.trim_end_matches('.').to_owned();
        self.errors.extend(errors(text).iter().map(|why| FieldError::invalid_text(path.as_str(), text, why)));
        self
    }

    /// Reports a non-empty string that is not a valid name.
    pub fn name(mut self, field: &str, rule: NameRule) -> Self {
        let text = self.object.text(&pointer(field));
        if !text.is_empty() {
            let path = self.path(field);
            let why = name_errors(rule, text, false);
            self.errors.extend(why.iter().map(|why| FieldError::invalid_text(path.as_str(), text, why)));
        }
        self
    }

    /// Adds the result of `error` if `holds` is true. An error with an empty field is an error of the checked value
    /// itself.
    pub fn refuse(mut self, holds: bool, error: impl FnOnce() -> FieldError) -> Self {
        if holds {
            let mut error = error();
            error.field = match error.field.as_str() {
                "" => self.prefix.trim_end_matches('.').to_owned(),
                field => self.path(field),
            };
            self.errors.push(error);
        }
        self
    }

    /// Reports an invalid value if `holds` is true. An empty `field` means the checked value itself, as in
    /// [`refuse`](Self::refuse).
    pub fn invalid_if(self, holds: bool, field: impl Into<String>, value: &Json, why: impl fmt::Display) -> Self {
        self.refuse(holds, || FieldError::invalid(field, value, why))
    }

    /// Reports an invalid string if `holds` is true.
    pub fn invalid_text_if(self, holds: bool, field: impl Into<String>, value: &str, why: impl fmt::Display) -> Self {
        self.refuse(holds, || FieldError::invalid_text(field, value, why))
    }

    /// Reports a missing field if `holds` is true.
    pub fn required_if(self, holds: bool, field: impl Into<String>, why: &str) -> Self {
        self.refuse(holds, || FieldError::required(field, why))
    }

    /// Reports a field that must not be set if `holds` is true.
    pub fn forbidden_if(self, holds: bool, field: impl Into<String>, why: impl fmt::Display) -> Self {
        self.refuse(holds, || FieldError::forbidden(field, why))
    }

    /// Reports a duplicate value if `holds` is true.
    pub fn duplicate_if(self, holds: bool, field: impl Into<String>, value: &Json) -> Self {
        self.refuse(holds, || FieldError::duplicate(field, value))
    }

    /// Reports a value that is not in `known` if `holds` is true.
    pub fn unsupported_if(self, holds: bool, field: impl Into<String>, value: &Json, known: &[&str]) -> Self {
        self.refuse(holds, || FieldError::unsupported(field, value, known))
    }

    /// Reports that the object `name` does not exist if `holds` is true.
    pub fn not_found_if(self, holds: bool, field: impl Into<String>, name: &str) -> Self {
        self.refuse(holds, || FieldError::not_found(field, name))
    }

    /// Applies `rules` to each list item and its index. Stops when the check has collected the maximum number of
    /// errors.
    pub fn each(mut self, field: &str, rules: impl Fn(Check<'a>, usize) -> Check<'a>) -> Self {
        let path = self.path(field);
        for (at, item) in self.object.list(&pointer(field)).enumerate() {
            if self.errors.is_full() {
                break;
            }
            let check = Check::at(item, &format!("{path}[{at}]"));
            self.errors.extend(rules(check, at).errors);
        }
        self
    }

    /// Applies `rules` to a nested value if it is present.
    pub fn inside(mut self, field: &str, rules: impl FnOnce(Check<'a>) -> Check<'a>) -> Self {
        if self.object.has(&pointer(field))
            && let Some(part) = self.value(field)
        {
            self.errors.extend(rules(Check::at(part, &self.path(field))).errors);
        }
        self
    }

    /// Applies `rules` to a nested value, or to null if it is absent.
    pub fn child(mut self, field: &str, rules: impl FnOnce(Check<'a>) -> Check<'a>) -> Self {
        static NONE: Json = Json::Null;
        let part = self.value(field).unwrap_or(&NONE);
        self.errors.extend(rules(Check::at(part, &self.path(field))).errors);
        self
    }

    /// Adds errors from another function. The paths in these errors must be complete, because this method adds no
    /// prefix.
    pub fn also(mut self, errors: impl IntoIterator<Item = FieldError>) -> Self {
        self.errors.extend(errors);
        self
    }

    /// Returns the value that this check validates.
    pub fn object(&self) -> &'a Json {
        self.object
    }

    /// Returns the collected errors.
    pub fn done(self) -> FieldErrors {
        self.errors
    }

    fn value(&self, field: &str) -> Option<&'a Json> {
        self.object.at(&pointer(field)).filter(|value| !value.is_null())
    }

    /// Returns the full path of the field `field` in the checked value.
    pub fn path(&self, field: &str) -> String {
        format!("{}{field}", self.prefix)
    }
}

/// Compares the fields of two objects, and returns an error for each field that differs.
pub fn immutable(new: &Json, old: &Json, fields: &[&str]) -> FieldErrors {
    let changed = fields.iter().filter(|field| {
        let pointer = pointer(field);
        new.at(&pointer) != old.at(&pointer)
    });
    changed
        .map(|field| {
            let value = new.at(&pointer(field)).cloned().unwrap_or_else(|| unset(new, field));
            FieldError::invalid(*field, &value, "field is immutable")
        })
        .collect()
}

/// Returns the value of an absent field in Go: an empty string, or null for pointers and all other types.
fn unset(object: &Json, field: &str) -> Json {
    let schema = Schema::builtin(object.text("/apiVersion"), object.text("/kind"));
    let mut ty = schema.as_ref().map(Schema::root);
    let mut is_text = false;
    for name in field.split('.') {
        let Some(Type::Struct { struct_type, .. }) = ty else { return Json::Null };
        let Some(field) = struct_type.field(name) else { return Json::Null };
        is_text = !field.pointer && matches!(field.ty, Type::Scalar(Scalar::String));
        ty = Some(&field.ty);
    }
    if is_text { "".into() } else { Json::Null }
}

fn pointer(field: &str) -> String {
    format!("/{}", field.replace('.', "/"))
}

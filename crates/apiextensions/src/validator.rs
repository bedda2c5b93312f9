//! Validates custom resources against their structural schemas.

mod numbers;

use std::collections::HashSet;
use std::fmt;

use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_json::Json;

use self::numbers::is_integer;
use super::field_path::FieldPath;
use super::formats;
use super::ratchet::{by_keys, is_unchanged, keys};
use super::structural::{Additional, Limits, Structural};
use super::weight;

/// Validates the value at `path` against its schema. Skips nested values that equal the corresponding values in `old`.
pub(crate) fn validate(schema: &Structural, value: &Json, old: Option<&Json>, path: &str) -> FieldErrors {
    Validation { steps_left: MAX_STEPS, ..Validation::default() }.run(schema, value, old, path).0
}

/// Validates a default, and subtracts the used steps from `steps_left`, which several defaults share. As in
/// kube-apiserver, a default for `x-kubernetes-int-or-string` can have any type.
pub(super) fn validate_default(schema: &Structural, default: &Json, steps_left: &mut usize) -> FieldErrors {
    let check = Validation { steps_left: *steps_left, is_default: true, ..Validation::default() };
    let (errors, left) = check.run(schema, default, None, "");
    *steps_left = left;
    errors
}

/// The maximum number of steps to validate an object. One step is the validation of a value against one schema, or
/// [`TEXT_BYTES_PER_STEP`] bytes of text in a value or an error. Each branch of an `anyOf` validates the value again,
/// so nested branches multiply the number of steps. Without a limit on the steps, validation could take hours even for
/// schemas and objects of valid size.
pub(super) const MAX_STEPS: usize = 5_000_000;
const TEXT_BYTES_PER_STEP: usize = 64;

#[derive(Default)]
struct Validation {
    errors: FieldErrors,
    /// The match count, as in Go's validation library. If no branch of an `anyOf` or `oneOf` matches, the match count
    /// selects the branch whose errors are reported.
    matches: usize,
    steps_left: usize,
    is_default: bool,
}

impl Validation {
    /// Returns the errors, without duplicates, and the number of remaining steps.
    fn run(mut self, schema: &Structural, value: &Json, old: Option<&Json>, path: &str) -> (FieldErrors, usize) {
        self.validate_value(schema, value, old, FieldPath::Start(path));
        if self.steps_left == 0 {
            self.report_without_path(format_args!("{path:?} takes more than {MAX_STEPS} steps to validate"));
        }
        let mut seen = HashSet::new();
        // Remove duplicates, because several branches, or a branch and the schema itself, can report the same error.
        let is_new = |error: &FieldError| seen.insert((error.field.clone(), error.message.clone()));
        (self.errors.into_iter().filter(is_new).collect(), self.steps_left)
    }

    fn validate_value(&mut self, schema: &Structural, value: &Json, old: Option<&Json>, path: FieldPath<'_>) {
        if !old.is_some_and(|old| is_unchanged(schema, value, old)) {
            self.validate_changed(schema, value, old, path);
        }
    }

    fn validate_changed(&mut self, schema: &Structural, value: &Json, old: Option<&Json>, path: FieldPath<'_>) {
        self.spend(1);
        if self.steps_left == 0 {
            return;
        }
        if value.is_null() && (schema.nullable || schema.type_name.is_empty() && !self.is_int_or_string(schema)) {
            // Like kube-apiserver, reject null for every `enum`, even for an `enum` that contains null.
            if let Some(values) = &schema.limits.values {
                self.report_unsupported(&values.all, value, path);
            }
            self.matches += 1;
            return;
        }
        // After a wrong type, continue the validation, unless the value is null.
        let has_type = self.check_type(schema, value, path);
        if !has_type && value.is_null() {
            return;
        }
        self.matches += self.matches_of(schema, value, has_type);
        self.validate_branches(schema, value, path);
        match value {
            Json::String(text) => self.validate_text(schema, text, path),
            Json::Number(_) => self.validate_number(schema, value, path),
            Json::Array(items) => self.validate_list(schema, items, old, path),
            _ => {}
        }
        self.validate_enum(&schema.limits, value, path);
        if let Json::Object(members) = value {
            self.validate_object(schema, members, old, path);
        }
    }

    fn is_int_or_string(&self, schema: &Structural) -> bool {
        schema.int_or_string && !self.is_default
    }

    fn spend(&mut self, steps: usize) {
        self.steps_left = self.steps_left.saturating_sub(steps);
    }

    /// Returns `true` if the value's JSON type matches the schema, and reports an error otherwise. If the schema has a
    /// known format, the error message contains the formats instead of the types, as in Go's validation library.
    fn check_type(&mut self, schema: &Structural, value: &Json, path: FieldPath<'_>) -> bool {
        let (found, found_format) = type_of(value);
        let allowed: &[&str] = match schema.type_name.as_str() {
            _ if self.is_int_or_string(schema) => &["integer", "string"],
            "" => &[],
            name => &[name],
        };
        let is_whole = || value.as_f64().is_some_and(is_integer);
        let fits = allowed.contains(&found)
            || found == "integer" && allowed.contains(&"number")
            || found == "number" && allowed.contains(&"integer") && is_whole();
        let has_format = !value.is_null() && formats::is_known(&schema.format, &schema.type_name);
        let is_numeric = allowed.contains(&"integer") || allowed.contains(&"number");
        let (wanted, found) = match value {
            _ if fits || allowed.is_empty() && !has_format => return true,
            Json::String(_) | Json::Array(_) if has_format && !is_numeric => return true,
            Json::String(_) | Json::Array(_) => (allowed.join(","), found),
            _ if has_format => (schema.format.to_string(), found_format),
            _ => (allowed.join(","), found),
        };
        let why = format_args!("{path} in body must be of type {wanted}: \"{found}\"");
        self.report(FieldErrorType::TypeInvalid, path, &found.into(), why);
        false
    }

    /// Returns the match count of the value itself, excluding its branches, items and members.
    fn matches_of(&self, schema: &Structural, value: &Json, has_type: bool) -> usize {
        // Each of these adds one match: the branches, the result of all branches, the `enum`, and the whole value.
        const ALWAYS: usize = 4;
        let is_typed = !schema.type_name.is_empty() || !schema.format.is_empty() || self.is_int_or_string(schema);
        let of_type = if is_typed { 1 + usize::from(has_type) } else { 0 };
        let of_value = match value {
            Json::String(_) => 1 + usize::from(formats::is_known(&schema.format, "string")),
            Json::Number(_) | Json::Array(_) => 2,
            Json::Object(_) => 1,
            Json::Null | Json::Bool(_) => 0,
        };
        ALWAYS + of_type + of_value
    }

    /// Validates a value against branches. Also validates unchanged nested values, because an unchanged tag would
    /// otherwise match the branches of all tags.
    fn validate_branches(&mut self, schema: &Structural, value: &Json, path: FieldPath<'_>) {
        if !schema.any_of.is_empty() {
            let (fitting, best) = self.try_branches(&schema.any_of, value, path, true);
            if fitting == 0 {
                self.report_without_path(format_args!("\"{path}\" must validate at least one schema (anyOf)"));
            }
            self.adopt(best);
        }
        if !schema.one_of.is_empty() {
            const ONE_OF: &str = "must validate one and only one schema (oneOf).";
            match self.try_branches(&schema.one_of, value, path, false) {
                (0, best) => {
                    self.report_without_path(format_args!("\"{path}\" {ONE_OF} Found none valid"));
                    self.adopt(best);
                }
                (1, only) => self.adopt(only),
                (many, _) => {
                    self.report_without_path(format_args!("\"{path}\" {ONE_OF} Found {many} valid alternatives"))
                }
            }
        }
        if !schema.all_of.is_empty() {
            let mut fitting = 0;
            for branch in &schema.all_of {
                let attempt = self.try_branch(branch, value, path);
                fitting += usize::from(attempt.errors.is_empty());
                self.adopt(attempt);
            }
            match fitting {
                0 => self.report_without_path(format_args!(
                    "\"{path}\" must validate all the schemas (allOf). None validated"
                )),
                some if some < schema.all_of.len() => {
                    self.report_without_path(format_args!("\"{path}\" must validate all the schemas (allOf)"));
                }
                _ => {}
            }
        }
        if let Some(not) = &schema.not
            && self.try_branch(not, value, path).errors.is_empty()
        {
            self.report_without_path(format_args!("\"{path}\" must not validate the schema (not)"));
        }
    }

    /// Returns the number of matching branches, and the result of the best branch. The best branch is the first
    /// matching branch or, if no branch matches, the branch with the highest match count. To save memory, the errors of
    /// all other branches are dropped immediately. If `any` is true, the validation stops at the first matching branch.
    fn try_branches(&mut self, branches: &[Structural], value: &Json, path: FieldPath<'_>, any: bool) -> (usize, Self) {
        let (mut fitting, mut best) = (0, None::<Self>);
        for branch in branches {
            let attempt = self.try_branch(branch, value, path);
            let fits = attempt.errors.is_empty();
            let is_better = |best: &Self| attempt.matches > best.matches;
            if fitting == 0 && (fits || best.as_ref().is_none_or(is_better)) {
                best = Some(attempt);
            }
            fitting += usize::from(fits);
            if any && fits {
                break;
            }
        }
        (fitting, best.unwrap_or_default())
    }

    /// Validates the value against a branch. The steps for the branch count towards the limit of the whole validation.
    fn try_branch(&mut self, schema: &Structural, value: &Json, path: FieldPath<'_>) -> Self {
        let mut branch = Self { steps_left: self.steps_left, is_default: self.is_default, ..Self::default() };
        branch.validate_changed(schema, value, None, path);
        self.steps_left = branch.steps_left;
        branch
    }

    fn adopt(&mut self, branch: Self) {
        self.errors.extend(branch.errors);
        self.matches += branch.matches;
    }

    fn validate_text(&mut self, schema: &Structural, text: &str, path: FieldPath<'_>) {
        let limits = &schema.limits;
        self.spend(text.len() / TEXT_BYTES_PER_STEP);
        let length = text.chars().count() as u64;
        let value = Json::from(text);
        // As in kube-apiserver, count code points, although the error message says bytes. Report only the first
        // violation of `maxLength`, `minLength` and `pattern`.
        if let Some(most) = limits.max_length.filter(|most| length > *most) {
            let bytes = if most == 1 { "byte" } else { "bytes" };
            let message = format!("Too long: may not be more than {most} {bytes}");
            self.push_error(|| FieldError::new(FieldErrorType::TooLong, path, message));
        } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
            self.report(
                FieldErrorType::Invalid,
                path,
                &value,
                format_args!("{path} in body should be at least {least} chars long"),
            );
        } else if let Some(pattern) = &limits.pattern {
            let Some((matches, steps)) = pattern.matches(text, self.steps_left) else {
                self.steps_left = 0;
                return;
            };
            self.spend(steps);
            if !matches {
                self.report(
                    FieldErrorType::Invalid,
                    path,
                    &value,
                    format_args!("{path} in body should match '{pattern}'"),
                );
            }
        }
        if matches!(&*schema.type_name, "" | "string") && !formats::fits(&schema.format, text) {
            let format = &schema.format;
            let why = format_args!("{path} in body must be of type {format}: {value}");
            self.report(FieldErrorType::TypeInvalid, path, &value, why);
        }
    }

    fn validate_list(&mut self, schema: &Structural, items: &[Json], old: Option<&Json>, path: FieldPath<'_>) {
        if let Some(item_schema) = &schema.items {
            let old_items = old.and_then(Json::as_array).filter(|_| schema.list_type == "map");
            let old_items = by_keys(schema, old_items.map_or(&[], |items| &items[..]));
            for (at, item) in items.iter().enumerate() {
                let old = if old_items.is_empty() { None } else { old_items.get(&keys(schema, item)).copied() };
                self.validate_value(item_schema, item, old, path.item(at));
            }
        }
        let (count, limits) = (items.len() as u64, &schema.limits);
        if let Some(least) = limits.min_items.filter(|least| count < *least) {
            self.report(
                FieldErrorType::Invalid,
                path,
                &count.into(),
                format_args!("{path} in body should have at least {least} items"),
            );
        }
        if let Some(most) = limits.max_items.filter(|most| count > *most) {
            self.report_too_many(path, count, most);
        }
    }

    fn validate_object(
        &mut self,
        schema: &Structural,
        members: &pintle_json::Map,
        old: Option<&Json>,
        path: FieldPath<'_>,
    ) {
        let (count, limits) = (members.len() as u64, &schema.limits);
        if let Some(least) = limits.min_properties.filter(|least| count < *least) {
            let why = format_args!("{path} in body should have at least {least} properties");
            self.report(FieldErrorType::Invalid, path, &count.into(), why);
        }
        if let Some(most) = limits.max_properties.filter(|most| count > *most) {
            self.report_too_many(path, count, most);
        }
        for (name, member) in members {
            let member_schema = match (schema.properties.get(name.as_str()), &schema.additional) {
                (Some(schema), _) => schema,
                (None, Some(Additional::Schema(schema))) => schema,
                (None, Some(Additional::Allowed(false))) => {
                    let why = format_args!("{} in body is a forbidden property", path.member(name));
                    self.report(FieldErrorType::Invalid, path, &name.as_str().into(), why);
                    continue;
                }
                _ => continue,
            };
            self.validate_value(member_schema, member, old.and_then(|old| old.get(name)), path.member(name));
        }
        self.spend(schema.required.len());
        for name in schema.required.iter().filter(|name| !members.contains_key(name)) {
            self.push_error(|| FieldError::required(path.member(name), ""));
        }
    }

    fn validate_enum(&mut self, limits: &Limits, value: &Json, path: FieldPath<'_>) {
        let Some(values) = &limits.values else { return };
        self.spend(1 + weight::of_value(value) / TEXT_BYTES_PER_STEP);
        if !values.has(value) {
            self.report_unsupported(&values.all, value, path);
        }
    }

    fn report_unsupported(&mut self, supported: &[Json], value: &Json, path: FieldPath<'_>) {
        self.push_error(|| {
            let texts = supported.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), Into::into));
            let texts: Vec<String> = texts.collect();
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            FieldError::unsupported(path, value, &texts)
        });
    }

    fn report_too_many(&mut self, path: FieldPath<'_>, count: u64, most: u64) {
        let items = if most == 1 { "item" } else { "items" };
        let message = format!("Too many: {count}: must have at most {most} {items}");
        self.push_error(|| FieldError::new(FieldErrorType::TooMany, path, message));
    }

    fn report(&mut self, reason: FieldErrorType, path: FieldPath<'_>, value: &Json, why: fmt::Arguments<'_>) {
        self.push_error(|| FieldError { reason, ..FieldError::invalid(path, value, why) });
    }

    /// Reports an error. The size of each error counts as validation steps, because a branch can report an error for
    /// every value. The validator also counts errors that it discards later.
    fn push_error(&mut self, make_error: impl FnOnce() -> FieldError) {
        let old_size = self.errors.size();
        self.errors.add(make_error);
        self.spend((self.errors.size() - old_size) / TEXT_BYTES_PER_STEP);
    }

    /// Reports an error without a path, like Go's validation library.
    fn report_without_path(&mut self, why: fmt::Arguments<'_>) {
        self.report(FieldErrorType::Invalid, FieldPath::Start("<nil>"), &"".into(), why);
    }
}

/// Returns the names of a value's JSON type and format for error messages.
fn type_of(value: &Json) -> (&'static str, &'static str) {
    match value {
        Json::Null => ("null", ""),
        Json::Bool(_) => ("boolean", ""),
        Json::Number(number) if number.is_i64() => ("integer", "int64"),
        Json::Number(_) => ("number", "float64"),
        Json::String(_) => ("string", ""),
        Json::Array(_) => ("array", ""),
        Json::Object(_) => ("object", ""),
    }
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;
    use pintle_json::json;

    use super::super::pattern::Patterns;
    use super::*;

    #[test]
    fn null_is_not_a_value_of_a_nullable_enum() {
        // The expected messages are from kube-apiserver 1.36.1.
        for (values, listed) in [(json!(["A"]), "\"A\""), (json!(["A", null]), "\"A\", \"null\"")] {
            let schema = json!({"type": "string", "nullable": true, "enum": values});
            let schema = Structural::read(&schema, &mut Patterns::default());
            let errors: Vec<_> = validate(&schema, &Json::Null, None, "a").into_iter().collect();
            let [error] = &errors[..] else { panic!("{errors:?}") };
            assert_eq!(error.message, format!("Unsupported value: null: supported values: {listed}"));
        }
        let schema = Structural::read(&json!({"type": "string", "nullable": true}), &mut Patterns::default());
        assert!(validate(&schema, &Json::Null, None, "a").is_empty());
    }

    pub(super) fn messages(schema: &Json, value: &Json) -> Vec<String> {
        let schema = Structural::read(schema, &mut Patterns::default());
        validate(&schema, value, None, "a").into_iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn error_of_several_branches_is_reported_once() {
        let branch = json!({"required": ["b"]});
        let schema = json!({"type": "object", "required": ["b", "c"], "anyOf": [branch, branch]});
        let found = messages(&schema, &json!({}));
        let expected = [
            "<nil>: Invalid value: \"\": \"a\" must validate at least one schema (anyOf)",
            "a.b: Required value",
            "a.c: Required value",
        ];
        assert_eq!(found, expected);
    }

    fn tagged(tag: &str, more: Json) -> Json {
        let mut branch = json!({"properties": {"tag": {"enum": [tag]}}});
        more.members("").for_each(|(key, value)| branch.set(key, value.clone()));
        branch
    }

    #[test]
    fn unchanged_tag_selects_the_same_branch_in_an_update() {
        let branches = [tagged("a", json!({"required": ["x"]})), tagged("b", json!({}))];
        let text = json!({"type": "string"});
        let properties = json!({"tag": text, "x": {"type": "integer"}});
        let schema = json!({"type": "object", "properties": properties, "oneOf": branches});
        let schema = Structural::read(&schema, &mut Patterns::default());
        let object = |tag: &str, x: i64| json!({"tag": tag, "x": x});
        assert_eq!(validate(&schema, &object("a", 2), Some(&object("a", 1)), ""), FieldErrors::default());
        assert!(!validate(&schema, &object("c", 2), Some(&object("c", 1)), "").is_empty());
        assert_eq!(validate(&schema, &object("c", 1), Some(&object("c", 1)), ""), FieldErrors::default());
    }

    /// The expected branch is the branch that kube-apiserver 1.36.1 selects.
    #[test]
    fn errors_come_from_the_branch_with_most_matches() {
        let nested = json!({"oneOf": [{"required": ["in"]}, {"required": ["as"]}]});
        let branches = [tagged("Text", json!({"required": ["text"], "minProperties": 2})), tagged("Key", nested)];
        let schema = json!({"type": "object", "properties": {"tag": {"type": "string"}}, "oneOf": branches});
        let none = "<nil>: Invalid value: \"\": \"a\" must validate one and only one schema (oneOf). Found none valid";
        assert_eq!(messages(&schema, &json!({"tag": "Key"})), [none, "a.in: Required value"]);
    }

    fn steps(schema: &Json, value: &Json) -> usize {
        let schema = Structural::read(schema, &mut Patterns::default());
        let mut check = Validation { steps_left: usize::MAX, ..Validation::default() };
        check.validate_value(&schema, value, None, FieldPath::Start(""));
        usize::MAX - check.steps_left
    }

    #[test]
    fn unsupported_values_are_reported_in_linear_time() {
        let validates = |count: usize| {
            let items = json!({"type": "string", "enum": ["x".repeat(1_000 * count)]});
            let schema = Structural::read(&json!({"type": "array", "items": items}), &mut Patterns::default());
            let errors = validate(&schema, &vec![json!(""); count].into(), None, "");
            assert!(!errors.is_empty());
        };
        assert!(is_linear(400, validates));
    }

    #[test]
    fn long_enum_does_not_exceed_the_step_limit() {
        let values: Vec<_> = (0..20_000).map(|at| format!("v{at}")).collect();
        let schema = json!({"type": "array", "items": {"type": "string", "enum": values}});
        let schema = Structural::read(&schema, &mut Patterns::default());
        assert!(validate(&schema, &values[19_750..].to_vec().into(), None, "").is_empty());
    }

    #[test]
    fn compared_and_reported_bytes_count_as_steps() {
        let long = "x".repeat(64_000);
        let least = |schema: Json, value: Json, least: usize| {
            let steps = steps(&schema, &value);
            assert!((least..2 * least).contains(&steps), "{steps} for {least}");
        };
        let near: Vec<_> = (0..10).map(|last| format!("{long}{last}")).collect();
        least(json!({"type": "string", "enum": near}), json!(near[9]), 2_000);
        let branch = json!({"enum": [long]});
        least(json!({"type": "array", "items": {"anyOf": vec![branch; 10]}}), json!(["a", "b"]), 20_000);
    }
}

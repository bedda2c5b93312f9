//! Evaluates rules.

use std::cell::LazyCell;

use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_cel::{EvalError, Failure, Value, Variables};
use pintle_json::Json;

use super::compile::{OLD_SELF, SELF};
use super::correlation::Correlation;
use super::{CALL_BUDGET, CompiledRule, OBJECT_BUDGET, RuleTree};
use crate::field_path::FieldPath;
use crate::structural::Structural;

/// The maximum length of a message expression's result, in bytes (Kubernetes'
/// `MaxEvaluatedMessageExpressionSizeBytes`).
const MAX_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Evaluates the rules for an object. `shape` is the schema that the rule tree was compiled from. `old` is the stored
/// object if the request is an update.
///
/// A violation of an unchanged value becomes a warning, unless the rule uses `oldSelf`. If the total cost exceeds the
/// budget, the remaining rules are skipped.
pub(crate) fn evaluate(tree: &RuleTree, shape: &Structural, object: &Json, old: Option<&Json>) -> FieldErrors {
    let mut run = Run::new(OBJECT_BUDGET, false);
    run.value((tree, shape), object, Correlation::of_object(old), FieldPath::Start(""));
    run.errors
}

/// The remaining cost budget of the rules that validate a schema's defaults, or `None` if it is exhausted.
#[derive(Debug)]
pub(crate) struct DefaultBudget(Option<u64>);

impl Default for DefaultBudget {
    fn default() -> Self {
        Self(Some(OBJECT_BUDGET))
    }
}

impl DefaultBudget {
    /// Evaluates the rules for a default. `shape` is the schema that the rule tree was compiled from.
    ///
    /// As in kube-apiserver, the rules must accept the default both as an unchanged value and as a new value. If the
    /// budget is exhausted, this method evaluates no rules.
    pub(crate) fn evaluate(&mut self, tree: &RuleTree, shape: &Structural, default: &Json) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let Some(budget) = self.0 else { return errors };
        let mut left = Some(budget);
        for old in [Some(default), None] {
            let mut run = Run::new(budget, true);
            run.value((tree, shape), default, Correlation::without_ratcheting(old), FieldPath::Start(""));
            left = left.filter(|_| !run.is_over).map(|left| left.min(run.budget));
            errors.extend(run.errors);
            if !errors.is_empty() {
                break;
            }
        }
        self.0 = left;
        errors
    }
}

/// The variables of a rule. Unlike an [`Activation`](pintle_cel::Activation), this type does not allocate memory on
/// the heap.
struct RuleVariables<'a> {
    value: Result<Value<'a>, Failure>,
    old: Option<Result<Value<'a>, Failure>>,
}

impl<'a> RuleVariables<'a> {
    fn get(&self, name: &str) -> Option<&Result<Value<'a>, Failure>> {
        match name {
            SELF => Some(&self.value),
            OLD_SELF => self.old.as_ref(),
            _ => None,
        }
    }
}

impl<'a> Variables<'a> for RuleVariables<'a> {
    fn value(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        self.get(name).cloned()
    }

    fn known(&self, name: &str) -> Option<&Value<'a>> {
        self.get(name)?.as_ref().ok()
    }
}

struct Run {
    errors: FieldErrors,
    budget: u64,
    is_over: bool,
    /// `true` if the rules validate a default in a new definition. A rule that does not compile is then an error. For
    /// stored definitions, rules that do not compile are skipped.
    is_default: bool,
}

impl Run {
    fn new(budget: u64, is_default: bool) -> Self {
        Self { errors: FieldErrors::default(), budget, is_over: false, is_default }
    }

    /// Returns `true` if the evaluation must stop, because the budget or the space for errors is exhausted.
    fn is_stopped(&self) -> bool {
        self.is_over || self.errors.is_full()
    }

    fn value(
        &mut self,
        (tree, shape): (&RuleTree, &Structural),
        value: &Json,
        correlation: Correlation<'_>,
        path: FieldPath<'_>,
    ) {
        // Skip the rules for a null value, because the rules of the surrounding schema can check for null.
        if value.is_null() || self.is_stopped() {
            return;
        }
        self.rules((tree, shape), value, &correlation, path);
        match value {
            Json::Array(items) => {
                let (Some(below), Some(of_items)) = (tree.items.as_deref(), shape.items.as_deref()) else { return };
                let correlations = correlation.items(tree, shape, value, items);
                for (at, (item, correlation)) in items.iter().zip(correlations).enumerate() {
                    self.value((below, of_items), item, correlation, path.item(at));
                }
            }
            Json::Object(members) => {
                let is_root = matches!(path, FieldPath::Start(_));
                for (name, member) in members {
                    let Some(shape) = shape.member(name) else { continue };
                    let correlation = correlation.member(name, is_root);
                    if let Some(below) = tree.properties.get(name.as_str()) {
                        self.value((below, shape), member, correlation, path.member(name));
                    } else if let Some(below) = &tree.additional {
                        self.value((below, shape), member, correlation, FieldPath::Key(&path, name));
                    }
                }
            }
            _ => {}
        }
    }

    fn rules(
        &mut self,
        (tree, shape): (&RuleTree, &Structural),
        value: &Json,
        correlation: &Correlation<'_>,
        path: FieldPath<'_>,
    ) {
        let Some(schema) = tree.schema.as_deref().filter(|_| !tree.rules.is_empty()) else { return };
        let old = correlation.old.map(|old| schema.value(old));
        let optional = tree.rules.iter().flatten().any(|rule| rule.has_optional_old_self).then(|| {
            let old = match &old {
                Some(old) => old.clone().map(Value::some),
                None => Ok(Value::NONE),
            };
            RuleVariables { value: schema.value(value), old: Some(old) }
        });
        let plain = RuleVariables { value: schema.value(value), old };
        let is_unchanged = LazyCell::new(|| correlation.is_unchanged(shape, value));
        for rule in &tree.rules {
            if self.is_stopped() {
                return;
            }
            let rule = match rule {
                Ok(rule) => rule,
                Err(why) if self.is_default => {
                    let why = format!("rule compile error: {why}");
                    self.errors.add(|| FieldError::invalid_text(text(path), &tree.type_name, why));
                    continue;
                }
                Err(_) => continue,
            };
            if rule.uses_old_self && correlation.old.is_none() && !rule.has_optional_old_self {
                continue;
            }
            let variables = optional.as_ref().filter(|_| rule.has_optional_old_self).unwrap_or(&plain);
            match self.evaluate(rule, variables) {
                Ok(true) => {}
                Ok(false) => {
                    let is_warning = !rule.uses_old_self && *is_unchanged;
                    self.fail(tree, rule, value, &plain, path, is_warning);
                }
                Err(why) => self.errors.add(|| FieldError::invalid_text(text(path), &tree.type_name, why)),
            }
        }
    }

    /// Evaluates a rule, and returns an error message for the user if the object violates the rule.
    fn evaluate(&mut self, rule: &CompiledRule, variables: &RuleVariables<'_>) -> Result<bool, String> {
        let result = rule.program.evaluate(variables, CALL_BUDGET.min(self.budget));
        let error = match result {
            Ok(outcome) => {
                self.budget -= outcome.cost;
                return Ok(outcome.value.as_bool() == Some(true));
            }
            Err(error) => error,
        };
        if let Some(why) = self.spend(&error, |limit| format!("{limit} for rule: {}", rule.name)) {
            return Err(why);
        }
        Err(match error.message() {
            why if why.starts_with("no such overload") => format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                rule.name
            ),
            why => format!("{why} evaluating rule: {}", rule.name),
        })
    }

    /// Subtracts a failed evaluation's cost from the remaining budget. If the evaluation exceeded a limit, returns a
    /// message and stops the evaluation of all remaining rules.
    fn spend(&mut self, error: &EvalError, over_call: impl FnOnce(&str) -> String) -> Option<String> {
        if !error.is_out_of_budget() {
            self.budget = self.budget.saturating_sub(error.cost());
            return None;
        }
        self.is_over = true;
        if self.budget < CALL_BUDGET {
            return Some(OUT_OF_BUDGET.into());
        }
        Some(over_call(
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit",
        ))
    }

    fn fail(
        &mut self,
        tree: &RuleTree,
        rule: &CompiledRule,
        value: &Json,
        variables: &RuleVariables<'_>,
        path: FieldPath<'_>,
        is_warning: bool,
    ) {
        let (mut why, mut over) = (rule.message.clone(), None);
        if let Some(program) = &rule.message_program {
            match program.evaluate(variables, CALL_BUDGET.min(self.budget)) {
                Ok(outcome) => {
                    self.budget -= outcome.cost;
                    if let Some(message) = outcome.value.as_str().map(str::trim).filter(|text| is_usable(text)) {
                        why = message.into();
                    }
                }
                Err(error) => {
                    over = self.spend(&error, |_| {
                        "no further validation rules will be run due to call cost exceeds limit for messageExpression".into()
                    });
                }
            }
        }
        // Build the path only if the error or the warning is added, because the path can be as long as the object.
        let error = || {
            let path = match (path, rule.field_path.as_str()) {
                (path, "") => text(path),
                (FieldPath::Start(""), below) => below.into(),
                (path, below) => format!("{path}.{below}"),
            };
            match over {
                Some(over) => FieldError::invalid_text(path, &tree.type_name, over),
                None => error(rule.reason, path, shown(tree, value), &why),
            }
        };
        if is_warning {
            self.errors.warn(|| error().to_string());
        } else {
            self.errors.add(error);
        }
    }
}

/// Formats a path for a message, with `<nil>` for the root path.
fn text(path: FieldPath<'_>) -> String {
    match path {
        FieldPath::Start("") => "<nil>".into(),
        path => path.to_string(),
    }
}

/// Returns the value that error messages show, or `None` for an object or a list.
fn shown<'a>(tree: &RuleTree, value: &'a Json) -> Option<&'a Json> {
    (!matches!(tree.type_name.as_str(), "object" | "array")).then_some(value)
}

fn error(reason: FieldErrorType, path: String, value: Option<&Json>, why: &str) -> FieldError {
    match (reason, value) {
        (FieldErrorType::Forbidden, _) => FieldError::forbidden(path, why),
        (FieldErrorType::Required, _) => FieldError::required(path, why),
        (FieldErrorType::Duplicate, Some(value)) => FieldError::duplicate(path, value),
        (FieldErrorType::Duplicate, None) => FieldError::new(FieldErrorType::Duplicate, path, "Duplicate value"),
        (_, Some(value)) => FieldError::invalid(path, value, why),
        (_, None) => FieldError::new(FieldErrorType::Invalid, path, format!("Invalid value: {why}")),
    }
}

fn is_usable(message: &str) -> bool {
    !message.is_empty() && message.len() <= MAX_MESSAGE && !message.contains('\n')
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;
    use crate::pattern::Patterns;

    #[test]
    fn rules_end_when_the_errors_reach_their_limit() {
        let item = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self < 0"}]});
        let lists = json!({"type": "object", "additionalProperties": {"type": "array", "items": item}});
        let schema = json!({"type": "object", "properties": {"spec": lists}});
        let items: Vec<_> = (0..1_000).map(Json::from).collect();
        let object = json!({"spec": {("k".repeat(1 << 20)): items}});
        let (tree, shape) = (RuleTree::read(&schema), Structural::read(&schema, &mut Patterns::default()));
        let tree = tree.expect("there are rules");
        let mut run = Run::new(OBJECT_BUDGET, false);
        run.value((&tree, &shape), &object, Correlation::of_object(None), FieldPath::Start(""));
        let cost = OBJECT_BUDGET - run.budget;
        assert_eq!(run.errors.fields().len(), 8);
        assert!(cost < 100, "{cost}");
    }
}

//! Validates the rules in a schema (`x-kubernetes-validations`).

use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_json::Json;

use super::children::fields;
use crate::field_path::FieldPath;
use crate::rules::{Compiled, Level, RuleEnvironments, RuleSource, is_valid_field_path};

/// The maximum estimated cost of one rule (`StaticEstimatedCostLimit`), and of all rules in a schema
/// (`StaticEstimatedCRDCostLimit`).
const RULE_LIMIT: u64 = 10_000_000;
const SCHEMA_LIMIT: u64 = 100_000_000;
/// The maximum number of rules that are listed in the error about a schema's total cost.
const MOST_EXPENSIVE: usize = 4;
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const RULES: &str = "x-kubernetes-validations";

/// Reports errors in the text fields of a schema's rules, such as an empty `rule` or a line break in `message`. Ignores
/// the rules of nested schemas.
pub(super) fn texts(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    let rules = path.member(RULES);
    for (at, source) in RuleSource::all(schema).enumerate() {
        let path = rules.item(at);
        let trimmed = |text: &str| text.trim().to_owned();
        let (rule, message) = (trimmed(source.rule), trimmed(source.message));
        if rule.is_empty() {
            errors.add(|| FieldError::required(path.member("rule"), "rule is not specified"));
        } else if !source.message.is_empty() && message.is_empty() {
            let why = "must be non-empty if specified";
            errors.add(|| FieldError::invalid_text(path.member("message"), source.message, why));
        } else if has_line_break(&message) {
            let why = "must not contain line breaks";
            errors.add(|| FieldError::invalid_text(path.member("message"), source.message, why));
        } else if has_line_break(&rule) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.add(|| FieldError::required(path.member("message"), why));
        }
        if !source.message_expression.is_empty() && source.message_expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.add(|| FieldError::required(path.member("messageExpression"), why));
        }
        if let Some(reason) = source.reason.filter(|reason| !REASONS.contains(reason)) {
            errors.add(|| FieldError::unsupported(path.member("reason"), &reason.into(), &REASONS));
        }
        field_path(&source, schema, path, errors);
    }
}

fn field_path(source: &RuleSource<'_>, schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    let mut report = |why: &str| {
        errors.add(|| FieldError::invalid_text(path.member("fieldPath"), source.field_path, why));
    };
    if source.field_path.is_empty() {
        return;
    }
    if source.field_path.trim().is_empty() {
        report("must be non-empty if specified");
    }
    if has_line_break(source.field_path) {
        report("must not contain line breaks");
    }
    if !is_valid_field_path(source.field_path, schema) {
        report("must be a valid path");
    }
}

fn has_line_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Reports rules that do not compile or that cost too much. `errors` contains the errors from other checks of the
/// schema. Skips the rules of a schema that has an error or contains a nested schema with an error.
pub(super) fn expressions(schema: &Json, path: FieldPath<'_>, errors: &mut FieldErrors) {
    let mut check = Check { faulty: errors.fields(), ..Check::default() };
    check.schema(schema, path, &Place::ROOT);
    errors.extend(check.errors);
    if check.total > SCHEMA_LIMIT {
        check.costs.retain(|rule| rule.cost >= SCHEMA_LIMIT / 100);
        check.costs.sort_by_key(|rule| std::cmp::Reverse(rule.cost));
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        for rule in check.costs.into_iter().take(MOST_EXPENSIVE) {
            errors.push(FieldError::forbidden(rule.field, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(path, over_budget(what, check.total, SCHEMA_LIMIT)));
    }
}

/// The estimated cost of a CEL expression in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleCost {
    /// The path from the root of the definition to the field with the expression.
    pub field: String,
    /// The estimated cost of all evaluations of the expression for one object.
    pub cost: u64,
}

impl RuleCost {
    /// The maximum cost of one expression. kube-apiserver rejects definitions with more expensive expressions.
    pub const LIMIT: u64 = RULE_LIMIT;
}

/// Returns the costs of all expressions in a valid definition.
pub fn costs(definition: &Json) -> Vec<RuleCost> {
    let mut check = Check::default();
    for (at, version) in definition.list("/spec/versions").enumerate() {
        if let Some(schema) = version.at("/schema/openAPIV3Schema") {
            let path = format!("spec.versions[{at}].schema.openAPIV3Schema");
            check.schema(schema, FieldPath::Start(&path), &Place::ROOT);
        }
    }
    check.costs
}

#[derive(Clone, Debug)]
struct Place {
    level: Level,
    /// The maximum number of values that one object can contain for this schema, or `None` if a surrounding list or map
    /// has no size limit.
    cardinality: Option<u64>,
    /// The path of the outermost surrounding list whose new items cannot be matched with old items.
    uncorrelated: Option<String>,
}

impl Place {
    const ROOT: Self = Self { level: Level::Resource, cardinality: Some(1), uncorrelated: None };

    fn below(&self, schema: &Json, path: FieldPath<'_>, child: &Json, is_item: bool) -> Self {
        let is_matched = !is_item || schema.text("/x-kubernetes-list-type") == "map";
        let uncorrelated = self.uncorrelated.clone();
        Self {
            level: Level::of(child),
            cardinality: self.cardinality.and_then(|count| Some(count.saturating_mul(max_elements(schema)?))),
            uncorrelated: if is_matched { uncorrelated } else { uncorrelated.or_else(|| Some(path.to_string())) },
        }
    }
}

/// Returns the maximum number of values in an object or list, or `None` if there is no limit.
fn max_elements(schema: &Json) -> Option<u64> {
    let limit = |key: &str| Some(schema.get(key)?.as_i64()?.try_into().unwrap_or(0));
    match schema.text("/type") {
        "object" if schema.get("additionalProperties").is_some_and(|more| !more.is_null()) => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    }
}

#[derive(Default)]
struct Check {
    errors: FieldErrors,
    faulty: Vec<String>,
    total: u64,
    costs: Vec<RuleCost>,
}

impl Check {
    fn schema(&mut self, schema: &Json, path: FieldPath<'_>, place: &Place) {
        fields(schema, path, |child, child_path| {
            let is_item = matches!(child_path, FieldPath::Member(_, "items"));
            self.schema(child, child_path, &place.below(schema, path, child, is_item));
        });
        if RuleSource::all(schema).next().is_some() && !self.is_faulty(path) {
            self.rules(schema, path, place);
        }
    }

    fn is_faulty(&self, path: FieldPath<'_>) -> bool {
        let path = path.to_string();
        let is_within = |field: &String| {
            field.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.faulty.iter().any(is_within)
    }

    fn rules(&mut self, schema: &Json, path: FieldPath<'_>, place: &Place) {
        let rules = path.member(RULES);
        let view = place.level.view(schema);
        if view.cel_type().is_none() {
            let why = "Internal error: internal error: failed to construct type information for x-kubernetes-validations \
                       rules: unable to convert structural schema to CEL declarations";
            return self.errors.add(|| FieldError::new(FieldErrorType::Internal, rules, why));
        }
        let environments = RuleEnvironments::new(&view);
        let cardinality = place.cardinality.unwrap_or_else(|| view.max_cardinality());
        for (at, source) in RuleSource::all(schema).enumerate() {
            self.rule(&source, rules.item(at), &environments, cardinality, place);
        }
    }

    fn rule(
        &mut self,
        source: &RuleSource<'_>,
        path: FieldPath<'_>,
        environments: &RuleEnvironments,
        cardinality: u64,
        place: &Place,
    ) {
        let (rule, message) = (path.member("rule"), path.member("messageExpression"));
        let invalid = |path: FieldPath<'_>, why: &str| {
            let value = source.to_go_json();
            FieldError::new(FieldErrorType::Invalid, path, format!("Invalid value: {value}: {why}"))
        };
        let compiled = Compiled::new(source, environments);
        match &compiled.program {
            Ok(program) => {
                let cost = program.estimate().max.saturating_mul(cardinality);
                self.observe(rule, "estimated rule cost", cost);
            }
            Err(why) => self.errors.add(|| invalid(rule, why)),
        }
        match &compiled.message {
            Some(Ok(program)) => self.observe(message, "estimated messageExpression cost", program.estimate().max),
            Some(Err(why)) => self.errors.add(|| invalid(message, why)),
            None => {}
        }
        if compiled.uses_old_self() {
            if let Some(list) = &place.uncorrelated {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                self.errors.add(|| FieldError::invalid_text(rule, source.rule, why));
            }
        } else if let Some(flag) = source.optional_old_self {
            let why = "may not be set if oldSelf is not used in rule";
            self.errors.add(|| FieldError::invalid(path.member("optionalOldSelf"), &Json::Bool(flag), why));
        }
    }

    fn observe(&mut self, path: FieldPath<'_>, what: &str, cost: u64) {
        if cost > RULE_LIMIT {
            self.errors.add(|| FieldError::forbidden(path, over_budget(what, cost, RULE_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        self.costs.push(RuleCost { field: path.to_string(), cost });
    }
}

fn over_budget(what: &str, cost: u64, limit: u64) -> String {
    let factor = match cost as f64 / limit as f64 {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where \
         arrays, maps, and strings are declared)"
    )
}

//! Compiles rules.

use std::sync::Arc;

use pintle_apimachinery::validate::FieldErrorType;
use pintle_cel::{CompileError, Environment, Program, Schema, Type};
use pintle_json::Json;

use super::field_path;

pub(super) const SELF: &str = "self";
pub(super) const OLD_SELF: &str = "oldSelf";

#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleSource<'a> {
    pub rule: &'a str,
    pub message: &'a str,
    pub message_expression: &'a str,
    pub reason: Option<&'a str>,
    pub field_path: &'a str,
    pub optional_old_self: Option<bool>,
}

impl<'a> RuleSource<'a> {
    /// Returns a schema's own rules, without the rules of nested schemas.
    pub(crate) fn all(schema: &'a Json) -> impl Iterator<Item = Self> {
        schema.list("/x-kubernetes-validations").map(|rule| Self {
            rule: rule.text("/rule"),
            message: rule.text("/message"),
            message_expression: rule.text("/messageExpression"),
            reason: rule.get("reason").and_then(Json::as_str),
            field_path: rule.text("/fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Json::as_bool),
        })
    }

    fn name(&self) -> String {
        let text = if self.message.is_empty() { self.rule } else { self.message };
        text.trim().into()
    }

    /// Returns the JSON that Go writes for the `ValidationRule`, which is part of error messages about the rule.
    pub(crate) fn to_go_json(self) -> String {
        let text = |text: &str| {
            let quoted = Json::from(text).to_string();
            quoted.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        };
        let reason = self.reason.map_or_else(|| "null".into(), text);
        let optional = self.optional_old_self.map_or_else(|| "null".into(), |flag| flag.to_string());
        format!(
            "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
            text(self.rule),
            text(self.message),
            text(self.message_expression),
            text(self.field_path),
        )
    }
}

/// The CEL environments for a schema's rules, which differ only in the type of `oldSelf`.
#[derive(Clone, Debug)]
pub(crate) struct RuleEnvironments {
    plain: Environment,
    optional: Environment,
}

impl RuleEnvironments {
    pub(crate) fn new(schema: &Arc<Schema>) -> Self {
        let base = Environment::new().data(SELF, schema);
        Self { plain: base.clone().data(OLD_SELF, schema), optional: base.optional_data(OLD_SELF, schema) }
    }

    fn of(&self, source: &RuleSource<'_>) -> &Environment {
        if source.optional_old_self == Some(true) { &self.optional } else { &self.plain }
    }
}

#[derive(Debug)]
pub(crate) struct Compiled {
    pub program: Result<Program, String>,
    /// The compiled message expression, or `None` if the rule has no message expression or does not compile.
    pub message: Option<Result<Program, String>>,
}

impl Compiled {
    pub(crate) fn new(source: &RuleSource<'_>, environments: &RuleEnvironments) -> Self {
        let environment = environments.of(source);
        let program = environment.compile(source.rule).map_err(|error| failed("", &error)).and_then(|program| {
            match *program.result_type() {
                Type::Bool => Ok(program),
                _ => Err("cel expression must evaluate to a bool".into()),
            }
        });
        let has_message = program.is_ok() && !source.message_expression.is_empty();
        let message = has_message.then(|| message_program(environment, source.message_expression));
        Self { program, message }
    }

    pub(crate) fn uses_old_self(&self) -> bool {
        self.program.as_ref().is_ok_and(|program| program.uses(OLD_SELF))
    }
}

#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) program: Program,
    pub(super) message_program: Option<Program>,
    /// The error message for a violation, for use if the message expression does not return a message.
    pub(super) message: String,
    pub(super) name: String,
    pub(super) reason: FieldErrorType,
    /// The field path in errors about violations, relative to the validated value, without a leading dot.
    pub(super) field_path: String,
    pub(super) has_optional_old_self: bool,
    pub(super) uses_old_self: bool,
}

impl CompiledRule {
    pub(super) fn new(source: &RuleSource<'_>, schema: &Json, environments: &RuleEnvironments) -> Result<Self, String> {
        let compiled = Compiled::new(source, environments);
        let uses_old_self = compiled.uses_old_self();
        let name = source.name();
        Ok(Self {
            uses_old_self,
            program: compiled.program?,
            message_program: compiled.message.and_then(Result::ok),
            message: if source.message.is_empty() { format!("failed rule: {name}") } else { name.clone() },
            name,
            reason: match source.reason {
                Some("FieldValueForbidden") => FieldErrorType::Forbidden,
                Some("FieldValueRequired") => FieldErrorType::Required,
                Some("FieldValueDuplicate") => FieldErrorType::Duplicate,
                _ => FieldErrorType::Invalid,
            },
            field_path: field_path::normalised(source.field_path, schema).unwrap_or_default(),
            has_optional_old_self: source.optional_old_self == Some(true),
        })
    }
}

impl CompiledRule {
    pub(super) fn estimated_cost(&self) -> u64 {
        let message = self.message_program.as_ref().map_or(0, |program: &Program| program.estimate().max);
        self.program.estimate().max.saturating_add(message)
    }
}

fn message_program(environment: &Environment, text: &str) -> Result<Program, String> {
    let program = environment.compile(text).map_err(|error| failed("messageExpression ", &error))?;
    match *program.result_type() {
        Type::String => Ok(program),
        _ => Err("messageExpression must evaluate to a string".into()),
    }
}

fn failed(what: &str, error: &CompileError) -> String {
    match error.issues() {
        [issue] if error.is_in_constant() => format!("{what}program instantiation failed: {}", issue.message()),
        _ => format!("{what}compilation failed: {error}"),
    }
}

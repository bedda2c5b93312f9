//! Compiles policy expressions.

use std::cell::OnceCell;
use std::collections::HashMap;

use pintle_cel::{Environment, Program, Type};
use pintle_json::Json;

use super::environment::{self, Optional};

/// Compiles a policy's expressions. Each expression can use the variables that were compiled before it.
#[derive(Debug)]
pub struct Expressions {
    /// The CEL environment for match conditions, without the policy's variables.
    conditions: Environment,
    full: Environment,
    without_authorizer: Environment,
    /// The CEL environment with all variables and the types of mutations. The environment is created after all
    /// variables have been compiled.
    mutations: OnceCell<Environment>,
}

impl Expressions {
    /// Creates a compiler for the expressions in a policy's spec.
    pub fn new(spec: &Json) -> Self {
        let params = spec.has("/paramKind");
        let has_variables = spec.list("/variables").next().is_some();
        let conditions = environment::base(Optional { params, authorizer: true });
        let with_variables = |base| if has_variables { environment::with_variables(base) } else { base };
        Self {
            full: with_variables(conditions.clone()),
            without_authorizer: with_variables(environment::base(Optional { params, authorizer: false })),
            conditions,
            mutations: OnceCell::new(),
        }
    }

    /// Compiles a match condition, which cannot use the policy's variables.
    pub fn match_condition(&self, text: &str) -> Result<Program, String> {
        compile(&self.conditions, text, &[Type::Bool])
    }

    /// Compiles a variable and makes it available to later expressions.
    pub fn variable(&mut self, name: &str, text: &str) -> Result<Program, String> {
        let program = compile(&self.full, text, &[]);
        let kind = program.as_ref().map_or(Type::Dyn, |program| program.result_type().clone());
        for environment in [&mut self.full, &mut self.without_authorizer] {
            *environment = environment::with_variable(std::mem::take(environment), name, &kind);
        }
        self.mutations = OnceCell::new();
        program
    }

    /// Compiles a validation.
    pub fn validation(&self, text: &str) -> Result<Program, String> {
        compile(&self.full, text, &[Type::Bool])
    }

    /// Compiles a message expression, which cannot use `authorizer`.
    pub fn message(&self, text: &str) -> Result<Program, String> {
        compile(&self.without_authorizer, text, &[Type::String])
    }

    /// Compiles the expression of a mutation. If `is_patch` is `true`, the expression must return a list of `JSONPatch`
    /// objects, and otherwise an apply configuration of type `Object`.
    pub fn mutation(&self, text: &str, is_patch: bool) -> Result<Program, String> {
        let object = |name: &str| Type::Object(name.into());
        let expected = if is_patch { Type::list(object("JSONPatch")) } else { object("Object") };
        let environment = self.mutations.get_or_init(|| self.full.clone().with_patches());
        compile(environment, text, &[expected])
    }

    /// Compiles the value expression of an audit annotation.
    pub fn audit_annotation(&self, text: &str) -> Result<Program, String> {
        compile(&self.full, text, &[Type::String, Type::Null])
    }
}

/// The prefix of error messages for constant expressions that cannot be evaluated.
pub const INSTANTIATION_FAILED: &str = "program instantiation failed: ";

/// Compiles an expression. The type of the result must be one of `types`, unless `types` is empty.
fn compile(environment: &Environment, text: &str, types: &[Type]) -> Result<Program, String> {
    let program = environment.compile(text).map_err(|error| match error.issues() {
        [issue] if error.is_in_constant() => format!("{INSTANTIATION_FAILED}{}", issue.message()),
        _ => format!("compilation failed: {error}"),
    })?;
    let found = program.result_type();
    match types {
        [] => Ok(program),
        types if types.contains(found) => Ok(program),
        [only] => Err(format!("must evaluate to {only} but got {found}")),
        several => {
            let several: Vec<_> = several.iter().map(ToString::to_string).collect();
            Err(format!("must evaluate to one of [{}] but got {found}", several.join(" ")))
        }
    }
}

/// A policy with its compiled expressions. For an expression that does not compile, the policy contains the compile
/// error.
#[derive(Debug)]
pub struct CompiledPolicy {
    /// If `true`, errors deny the request. `false` if the `failurePolicy` is `Ignore`.
    pub(super) fails: bool,
    pub(super) match_conditions: Vec<Expression>,
    pub(super) variables: Vec<Variable>,
    pub(super) variable_indexes: HashMap<String, usize>,
    pub(super) validations: Vec<Validation>,
    pub(super) audit_annotations: Vec<(String, Expression)>,
    pub(super) mutations: Vec<Mutation>,
    is_reinvocable: bool,
}

#[derive(Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    pub(super) program: Result<Program, String>,
}

#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) program: Result<Program, String>,
}

#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) is_patch: bool,
    pub(super) expression: Expression,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_program: Option<Program>,
    pub(super) reason: Option<String>,
}

impl CompiledPolicy {
    /// Compiles the expressions in a policy's spec.
    pub fn new(spec: &Json) -> Self {
        let mut expressions = Expressions::new(spec);
        let match_conditions = spec.list("/matchConditions").map(|condition| {
            let text = condition.text("/expression").trim().to_owned();
            Expression { program: expressions.match_condition(&text), text }
        });
        let match_conditions = match_conditions.collect();
        let variables = spec.list("/variables").map(|variable| {
            let (name, text) = (variable.text("/name"), variable.text("/expression"));
            let program = expressions.variable(name, text);
            Variable { name: name.into(), program }
        });
        let variables: Vec<Variable> = variables.collect();
        let by_name = |(at, variable): (usize, &Variable)| (variable.name.clone(), at);
        let variable_indexes = variables.iter().enumerate().map(by_name).collect();
        let validations = spec.list("/validations").map(|validation| {
            let text = validation.text("/expression");
            let message_expression = validation.text("/messageExpression");
            Validation {
                expression: Expression { text: text.trim().into(), program: expressions.validation(text) },
                message: validation.text("/message").trim().into(),
                message_program: (!message_expression.is_empty())
                    .then(|| expressions.message(message_expression).ok())
                    .flatten(),
                reason: validation.get("reason").and_then(Json::as_str).map(Into::into),
            }
        });
        let validations = validations.collect();
        let audit_annotations = spec.list("/auditAnnotations").map(|annotation| {
            let text = annotation.text("/valueExpression").trim().to_owned();
            let key = annotation.text("/key").to_owned();
            (key, Expression { program: expressions.audit_annotation(&text), text })
        });
        let audit_annotations = audit_annotations.collect();
        let mutations = spec.list("/mutations").map(|mutation| {
            let is_patch = mutation.text("/patchType") == "JSONPatch";
            let part = if is_patch { "/jsonPatch/expression" } else { "/applyConfiguration/expression" };
            let text = mutation.text(part);
            let program = expressions.mutation(text.trim(), is_patch);
            Mutation { is_patch, expression: Expression { program, text: text.into() } }
        });
        let mutations = mutations.collect();
        Self {
            fails: spec.text("/failurePolicy") != "Ignore",
            match_conditions,
            variables,
            variable_indexes,
            validations,
            audit_annotations,
            mutations,
            is_reinvocable: spec.text("/reinvocationPolicy") == "IfNeeded",
        }
    }

    /// Returns the number of mutations in the policy.
    pub fn mutations(&self) -> usize {
        self.mutations.len()
    }

    /// Returns `true` if `reinvocationPolicy` allows the policy to run again after the object changes.
    pub fn is_reinvocable(&self) -> bool {
        self.is_reinvocable
    }

    /// Returns `true` if the failure policy is `Fail`, which means that errors in the configuration or in an expression
    /// deny the request.
    pub fn fails(&self) -> bool {
        self.fails
    }
}

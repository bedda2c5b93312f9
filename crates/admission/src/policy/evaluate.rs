//! Evaluates a policy's compiled expressions for a request.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use pintle_cel::{Authorizer, Failure, Program, Question, Value, Variables};
use pintle_json::Json;

use super::CompiledPolicy;
use super::compile::{Expression, Validation, Variable};

/// The cost limits for one expression, for all validations of a policy, and for all its match conditions.
const CALL_BUDGET: u64 = 1_000_000;
pub(super) const VALIDATION_BUDGET: u64 = 10_000_000;
const MATCH_BUDGET: u64 = VALIDATION_BUDGET / 4;
pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const MAX_MESSAGE: usize = 5 * 1024;
const MAX_ANNOTATION: usize = 10 * 1024;
/// The maximum length of a chain of variables that refer to each other. kube-apiserver has no such limit.
const MAX_DEPTH: usize = 64;

/// The values of an expression's variables.
pub struct Inputs<'a> {
    /// The new object, or `None` for a delete.
    pub object: Option<&'a Json>,
    pub old_object: Option<&'a Json>,
    pub params: Option<&'a Json>,
    pub request: &'a Json,
    /// The object's namespace, or `None` for a cluster-scoped object.
    pub namespace: Option<&'a Json>,
    pub authorizer: Arc<dyn Authorizer>,
    /// The authorization check for the request's resource. Expressions add the verb to this check.
    pub resource: Question,
}

/// The reason why a policy denies a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub message: String,
    /// The reason in the response's Status, or `None` for `Invalid`.
    pub reason: Option<String>,
    /// The index of the failed validation, or 0 for other errors.
    pub index: usize,
}

impl Denial {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: None, index: 0 }
    }
}

/// The result of evaluating a policy.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The failed validations. The `validationActions` of the binding determine whether these failures deny the
    /// request or cause warnings.
    pub denials: Vec<Denial>,
    /// The audit annotations whose expressions failed, each of which denies the request.
    pub annotation_denials: Vec<Denial>,
    /// The audit annotations, whose keys do not contain the name of the policy.
    pub annotations: Vec<(String, String)>,
}

impl CompiledPolicy {
    /// Evaluates the policy for a request. The verdict is empty if the match conditions exclude the request.
    pub fn evaluate(&self, inputs: &Inputs<'_>) -> Verdict {
        match self.is_matched(inputs) {
            Ok(true) => {}
            Ok(false) => return Verdict::default(),
            Err(message) => return self.failed(message),
        }
        let scope = Scope::new(self, inputs, VALIDATION_BUDGET);
        let mut results = Vec::new();
        for validation in &self.validations {
            match scope.evaluate(&validation.expression) {
                Err(Stop) => return self.failed(OUT_OF_BUDGET.into()),
                Ok(result) => results.push(result),
            }
        }
        // As in kube-apiserver, the policy's variables are computed again for message expressions.
        let messages = Scope::new(self, inputs, scope.budget.get());
        let mut verdict = Verdict::default();
        for (index, (validation, result)) in self.validations.iter().zip(results).enumerate() {
            match result.map(|value| value.as_bool()) {
                Ok(Some(true)) => {}
                Ok(_) => {
                    let message = match messages.message(validation) {
                        Ok(message) => message,
                        Err(Stop) => return self.failed(format!("failed messageExpression: {OUT_OF_BUDGET}")),
                    };
                    verdict.denials.push(Denial { message, reason: validation.reason.clone(), index });
                }
                Err(why) => verdict.denials.extend(self.fails.then(|| Denial { index, ..Denial::new(why) })),
            }
        }
        let scope = Scope::new(self, inputs, VALIDATION_BUDGET);
        for (key, annotation) in &self.audit_annotations {
            match scope.evaluate(annotation) {
                Err(Stop) => return self.failed(OUT_OF_BUDGET.into()),
                Ok(Ok(value)) => {
                    let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
                    verdict.annotations.extend(text.map(|text| (key.clone(), shortened(text, MAX_ANNOTATION))));
                }
                Ok(Err(why)) => verdict.annotation_denials.extend(self.fails.then(|| Denial::new(why))),
            }
        }
        verdict
    }

    /// Returns `true` if the request satisfies all match conditions. If a condition cannot be evaluated and no
    /// condition is false, the failure policy determines the result.
    pub fn is_matched(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        let inputs = Inputs {
            namespace: None,
            authorizer: inputs.authorizer.clone(),
            resource: inputs.resource.clone(),
            ..*inputs
        };
        let scope = Scope::new(self, &inputs, MATCH_BUDGET);
        let mut errors = Vec::<String>::new();
        for condition in &self.match_conditions {
            match scope.evaluate(condition) {
                Err(Stop) => return if self.fails { Err(OUT_OF_BUDGET.into()) } else { Ok(false) },
                Ok(Ok(value)) if value.as_bool() == Some(false) => return Ok(false),
                Ok(Ok(_)) => {}
                Ok(Err(why)) if !errors.contains(&why) => errors.push(why),
                Ok(Err(_)) => {}
            }
        }
        match (&errors[..], self.fails) {
            ([], _) => Ok(true),
            (_, false) => Ok(false),
            ([only], true) => Err(only.clone()),
            (several, true) => Err(format!("[{}]", several.join(", "))),
        }
    }

    fn failed(&self, message: String) -> Verdict {
        Verdict { denials: self.fails.then(|| Denial::new(message)).into_iter().collect(), ..Verdict::default() }
    }
}

pub(super) struct Stop;

/// The evaluation state of expressions that share variables and a cost budget.
pub(super) struct Scope<'a> {
    policy: &'a CompiledPolicy,
    inputs: &'a Inputs<'a>,
    data: [(&'static str, Value<'a>); 5],
    budget: Cell<u64>,
    /// The values of the policy's own variables, which are computed on first use.
    variables: Vec<OnceCell<Result<Value<'a>, Failure>>>,
    /// The number of variables that are currently being computed. Computing a variable can require other variables.
    depth: Cell<usize>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(policy: &'a CompiledPolicy, inputs: &'a Inputs<'a>, budget: u64) -> Self {
        let variables = policy.variables.iter().map(|_| OnceCell::new()).collect();
        let json = |value: Option<&'a Json>| value.map_or(Value::Null, |value| Value::of(value));
        let data = [
            ("object", json(inputs.object)),
            ("oldObject", json(inputs.old_object)),
            ("params", json(inputs.params)),
            ("request", json(Some(inputs.request))),
            ("namespaceObject", json(inputs.namespace)),
        ];
        Self { policy, inputs, data, budget: Cell::new(budget), variables, depth: Cell::new(0) }
    }

    fn evaluate(&self, expression: &Expression) -> Result<Result<Value<'a>, String>, Stop> {
        let program = match &expression.program {
            Ok(program) => program,
            Err(error) => return Ok(Err(format!("compilation error: {error}"))),
        };
        let value = self.run(program)?;
        Ok(value.map_err(|error| format!("expression '{}' resulted in error: {}", expression.text, error.message())))
    }

    pub(super) fn run(&self, program: &Program) -> Result<Result<Value<'a>, Failure>, Stop> {
        let budget = self.budget.get().min(CALL_BUDGET);
        match program.evaluate(self, budget) {
            Ok(evaluation) => {
                self.spend(evaluation.cost)?;
                Ok(Ok(evaluation.value))
            }
            Err(error) if error.is_out_of_budget() && self.budget.get() < CALL_BUDGET => Err(Stop),
            Err(error) => {
                self.spend(error.cost())?;
                let why = if error.is_out_of_budget() {
                    "operation cancelled: actual cost limit exceeded"
                } else {
                    error.message()
                };
                Ok(Err(Failure::new(why)))
            }
        }
    }

    fn spend(&self, cost: u64) -> Result<(), Stop> {
        let left = self.budget.get().checked_sub(cost).ok_or(Stop)?;
        self.budget.set(left);
        Ok(())
    }

    fn variable(&self, at: usize) -> Result<Value<'a>, Failure> {
        if let Some(known) = self.variables[at].get() {
            return known.clone();
        }
        let depth = self.depth.get();
        if depth >= MAX_DEPTH {
            return Err(Failure::new(format!("variables refer to each other more than {MAX_DEPTH} levels deep")));
        }
        self.depth.set(depth + 1);
        let value = self.computed(&self.policy.variables[at]);
        self.depth.set(depth);
        self.variables[at].get_or_init(|| value).clone()
    }

    fn computed(&self, variable: &Variable) -> Result<Value<'a>, Failure> {
        let failed = |how: &str, why: &str| {
            Failure::new(format!("composited variable {:?} fails to {how}: {why}", variable.name))
        };
        let program = variable.program.as_ref().map_err(|why| failed("compile", why))?;
        match self.run(program) {
            Err(Stop) => Err(Failure::Budget),
            Ok(value) => value.map_err(|error| failed("evaluate", error.message())),
        }
    }

    fn message(&self, validation: &Validation) -> Result<String, Stop> {
        let text = match &validation.message_program {
            None => None,
            Some(program) => {
                self.run(program)?.ok().and_then(|value| value.as_str().map(|text| text.trim().to_owned()))
            }
        };
        let is_usable = |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        Ok(match text.filter(is_usable) {
            Some(text) => text,
            None if !validation.message.is_empty() => validation.message.clone(),
            None => format!("failed expression: {}", validation.expression.text),
        })
    }
}

impl<'a> Variables<'a> for Scope<'a> {
    fn value(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        let Inputs { authorizer, resource, .. } = self.inputs;
        if let Some(known) = self.known(name) {
            return Some(Ok(known.clone()));
        }
        match name {
            "authorizer" => Some(Ok(Value::authorizer(authorizer.clone()))),
            "authorizer.requestResource" => Some(Ok(Value::resource_authorizer(authorizer.clone(), resource.clone()))),
            other => {
                let at = self.policy.variable_indexes.get(other.strip_prefix("variables.")?)?;
                Some(self.variable(*at))
            }
        }
    }

    fn known(&self, name: &str) -> Option<&Value<'a>> {
        self.data.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

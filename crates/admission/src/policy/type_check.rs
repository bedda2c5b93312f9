//! Checks a validating policy's expressions against the types of the matched resources. In a real cluster, a controller
//! in kube-controller-manager performs this type check.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_cel::{Environment, Schema, Type};
use pintle_json::{Json, json};
use pintle_meta::GroupVersionKind;

use super::environment;

/// The maximum number of compiled expressions, including variables, for one policy.
const MAX_CHECKS: usize = 20_000;
/// The maximum total length of a policy's warnings, in bytes. The maximum is a little lower than etcd's maximum object
/// size.
const MAX_WARNINGS: usize = 1 << 20;

/// The type check of one policy, in separate steps, so that the caller can yield between two steps.
///
/// As in kube-controller-manager, only validations and their message expressions can cause warnings.
#[derive(Debug)]
pub struct TypeCheck<'a> {
    spec: &'a Json,
    /// The policy fields to check, with their expressions, in the order of the warnings.
    fields: Vec<(String, &'a str)>,
    warnings: BTreeMap<usize, Vec<String>>,
    left: usize,
    warned_bytes: usize,
}

impl<'a> TypeCheck<'a> {
    /// Starts the type check of a policy with this spec.
    pub fn new(spec: &'a Json) -> Self {
        let mut fields = Vec::new();
        for (at, validation) in spec.list("/validations").enumerate() {
            for name in ["expression", "messageExpression"] {
                let text = validation.get(name).and_then(Json::as_str).unwrap_or_default();
                if name == "expression" || !text.is_empty() {
                    fields.push((format!("spec.validations[{at}].{name}"), text));
                }
            }
        }
        Self { spec, fields, warnings: BTreeMap::new(), left: MAX_CHECKS, warned_bytes: 0 }
    }

    /// Returns the CEL environment for objects of one kind, with the policy's variables. `params` is `None` if the
    /// policy has no parameters, and `Some(None)` if the parameters can have any type.
    ///
    /// Returns `None` if the check would compile too many expressions.
    pub fn environment(&mut self, objects: &Arc<Schema>, params: Option<Option<&Arc<Schema>>>) -> Option<Environment> {
        let mut environment = environment::typed(Some(objects), params);
        for variable in self.spec.list("/variables") {
            self.left = self.left.checked_sub(1)?;
            let program = environment.compile(variable.text("/expression"));
            // As in kube-controller-manager, a variable that does not compile gets the type `dyn` and causes no
            // warning.
            let declared = program.map_or(Type::Dyn, |program| program.result_type().clone());
            environment = environment::with_variable(environment, variable.text("/name"), &declared);
        }
        Some(environment)
    }

    /// Returns the number of fields with expressions. The caller must check each of these fields for each kind.
    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// Checks the expression in field `at` for objects of one kind. Returns `false` if the check has reached a limit.
    /// Further calls then have no effect.
    pub fn check(&mut self, at: usize, kind: &GroupVersionKind, environment: &Environment) -> bool {
        let (Some((_, text)), Some(left)) = (self.fields.get(at), self.left.checked_sub(1)) else { return false };
        self.left = left;
        // Ignore errors in constants, because the type check does not evaluate constants.
        let Some(error) = environment.compile(text).err().filter(|error| !error.is_in_constant()) else { return true };
        let GroupVersionKind { group, version, kind } = kind;
        let warning = format!("{group}/{version}, Kind={kind}: {error}\n");
        self.warned_bytes = self.warned_bytes.saturating_add(warning.len());
        if self.warned_bytes > MAX_WARNINGS {
            self.left = 0;
            return false;
        }
        self.warnings.entry(at).or_default().push(warning);
        true
    }

    /// Ends the type check, and returns the field `typeChecking` of the policy's status.
    pub fn finish(self) -> Json {
        let Self { fields, warnings, .. } = self;
        let warnings = warnings.into_iter().filter_map(|(at, texts)| {
            let (field, _) = fields.get(at)?;
            Some(json!({"fieldRef": field, "warning": texts.join("\n")}))
        });
        let warnings: Vec<Json> = warnings.collect();
        if warnings.is_empty() { json!({}) } else { json!({"expressionWarnings": warnings}) }
    }
}

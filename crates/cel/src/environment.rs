//! The variables and types that expressions can use.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::schema::{Objects, Schema, is_reserved};
use crate::types::Type;

/// The variables, object types and functions that an expression can use.
///
/// Every environment provides the functions of kube-apiserver 1.36: CEL's standard functions and macros, and the
/// libraries of cel-go and Kubernetes. The libraries have functions for optional values, strings, lists, sets, regular
/// expressions, URLs, IP addresses, CIDRs, quantities, semantic versions, named formats and the authorizer. An
/// environment is cheap to clone.
///
/// ```
/// use pintle_cel::{Activation, Environment, Type, Value};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let environment = Environment::new().variable("name", Type::String);
/// let program = environment.compile("name.startsWith('kube-')")?;
/// let activation = Activation::new().bind("name", "kube-system");
/// assert_eq!(program.evaluate(&activation, 1_000)?.value.as_bool(), Some(true));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<Arc<str>, Type>,
    /// The schema of the first variable that was declared with a schema. The size limits in this schema bound the
    /// estimated cost.
    root_schema: Option<Arc<Schema>>,
    objects: Objects,
    patches: bool,
    bindings: bool,
    own_sizes: bool,
}

impl Environment {
    /// Creates an environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a variable. A dotted name, such as `authorizer.requestResource`, also declares a single variable.
    #[must_use]
    pub fn variable(mut self, name: &str, declared: Type) -> Self {
        self.variables.insert(name.into(), declared);
        self
    }

    /// Declares a variable whose type and maximum size come from a schema. Does nothing if the schema has no CEL type,
    /// because expressions cannot access untyped data.
    #[must_use]
    pub fn data(self, name: &str, schema: &Arc<Schema>) -> Self {
        let declared = schema.cel_type().cloned();
        self.sized(name, schema, declared)
    }

    /// Declares an optional variable whose type and maximum size come from a schema. The value of the variable must be
    /// a [`Value::Optional`].
    ///
    /// [`Value::Optional`]: crate::Value::Optional
    #[must_use]
    pub fn optional_data(self, name: &str, schema: &Arc<Schema>) -> Self {
        let declared = schema.cel_type().cloned().map(Type::optional);
        self.sized(name, schema, declared)
    }

    fn sized(mut self, name: &str, schema: &Arc<Schema>, declared: Option<Type>) -> Self {
        schema.declare(&mut self.objects);
        if let Some(declared) = declared {
            self.variables.insert(name.into(), declared);
            self.root_schema.get_or_insert_with(|| schema.clone());
        }
        self
    }

    /// Declares an object type with the given fields. If the type is already declared, the new fields replace the
    /// previous fields.
    #[must_use]
    pub fn object<'a>(mut self, name: &str, fields: impl IntoIterator<Item = (&'a str, Type)>) -> Self {
        self.objects.insert(name.into(), fields.into_iter().map(|(name, part)| (name.into(), part)).collect());
        self
    }

    /// Declares one field of an object type, without changing the other fields of the type.
    #[must_use]
    pub fn field(mut self, object: &str, name: &str, declared: Type) -> Self {
        self.objects.entry(object.into()).or_default().insert(name.into(), declared);
        self
    }

    /// Adds the types and functions that only mutating policies can use: `Object`, `JSONPatch` and
    /// `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// Adds the macro `cel.bind`, which only selectors of devices can use.
    #[must_use]
    pub fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    /// Estimates costs with the size limits of a schema, without a variable of its type. The schema describes the
    /// variable that expressions read. Fields of a map have the size of the map's values.
    #[must_use]
    pub fn with_sizes(mut self, schema: &Arc<Schema>) -> Self {
        (self.root_schema, self.own_sizes) = (Some(schema.clone()), true);
        self
    }

    pub(crate) fn has_own_sizes(&self) -> bool {
        self.own_sizes
    }

    pub(crate) fn has_bindings(&self) -> bool {
        self.bindings
    }

    pub(crate) fn variable_type(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }

    pub(crate) fn root_schema(&self) -> Option<&Arc<Schema>> {
        self.root_schema.as_ref()
    }

    pub(crate) fn has_patches(&self) -> bool {
        self.patches
    }

    pub(crate) fn has_object(&self, name: &str) -> bool {
        self.objects.contains_key(name) || self.patches && is_patch_type(name)
    }

    pub(crate) fn field_type(&self, object: &str, field: &str) -> Option<Type> {
        if let Some(fields) = self.objects.get(object) {
            let keyword = || fields.get(&format!("__{field}__")).filter(|_| is_reserved(field));
            return fields.get(field).or_else(keyword).cloned();
        }
        if !self.patches || !is_patch_type(object) {
            return None;
        }
        match (object, field) {
            (JSON_PATCH, "op" | "path" | "from") => Some(Type::String),
            (JSON_PATCH, "value") => Some(Type::Dyn),
            // As in kube-apiserver, all other fields of a `JSONPatch` have a type with an empty name, so expressions
            // cannot assign a value to them.
            (JSON_PATCH, _) => Some(Type::Opaque("".into())),
            _ => Some(Type::Dyn),
        }
    }
}

pub(crate) const JSON_PATCH: &str = "JSONPatch";

/// Returns `true` if a name is `JSONPatch`, `Object`, or the type of an object field such as `Object.spec`.
fn is_patch_type(name: &str) -> bool {
    name == JSON_PATCH || name == "Object" || name.starts_with("Object.")
}

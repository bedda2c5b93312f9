//! Checks definitions and custom resources without a server.

mod files;
mod offline;
mod rejection;

use serde::Serialize;

pub use files::{CheckedManifest, check_manifests};
use offline::{Defined, Offline, Sample};
#[doc(inline)]
pub use pintle_apiextensions::RuleCost;
pub use rejection::Rejection;

/// Checks which custom resources a CustomResourceDefinition accepts, without a server, a runtime or a socket.
///
/// The checker uses the code of the embedded server, so results and messages are the same as in kube-apiserver. A check
/// prunes the object, adds defaults, validates the metadata and the schema, and evaluates CEL rules with their cost
/// limits. Unknown and duplicate fields are errors, as with `fieldValidation=Strict`.
///
/// The checker calls no conversion webhooks. If the definition has a conversion webhook, the checker uses the version of each
/// object as the storage version. The old and the new object of an update must then have the same version.
///
/// A manifest is a YAML string or any value that serializes to an object. To keep tests short, a manifest may omit the
/// following fields:
///
/// - `apiVersion` and `kind`: the checker uses the kind and the storage version of the definition.
/// - `metadata.name` and `metadata.generateName`: the name is then `sample`.
/// - `metadata.namespace`: the namespace is then `default`. The checker assumes that every namespace exists.
///
/// # Examples
///
/// ```
/// use pintle_apiserver::CrdChecker;
///
/// let crd = CrdChecker::new(
///     "
///     apiVersion: apiextensions.k8s.io/v1
///     kind: CustomResourceDefinition
///     metadata: {name: sites.example.com}
///     spec:
///       group: example.com
///       scope: Namespaced
///       names: {plural: sites, kind: Site}
///       versions:
///       - name: v1
///         served: true
///         storage: true
///         schema:
///           openAPIV3Schema:
///             type: object
///             properties:
///               spec:
///                 type: object
///                 properties: {domain: {type: string, maxLength: 63}, replicas: {type: integer, default: 1, maximum: 20}}
///                 x-kubernetes-validations: [{rule: self.domain == oldSelf.domain, message: the domain is immutable}]
///     ",
/// )?;
/// crd.assert_accepts("spec: {domain: a.example.com}");
/// crd.assert_rejects("spec: {replicas: 21}", "spec.replicas: Invalid value: 21: spec.replicas in body should be less than or equal to 20");
/// crd.assert_rejects_update("spec: {domain: a}", "spec: {domain: b}", "the domain is immutable");
/// assert_eq!(crd.create("spec: {domain: a}")?.object["spec"]["replicas"], 1);
/// # Ok::<(), pintle_apiserver::Rejection>(())
/// ```
#[derive(Debug)]
pub struct CrdChecker {
    offline: Offline,
    definitions: Vec<Defined>,
}

/// A custom resource that the server would accept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckedObject {
    /// The object as the server would return it, after pruning and defaulting.
    pub object: serde_json::Value,
    /// The warnings in the server's response.
    pub warnings: Vec<String>,
}

impl CrdChecker {
    /// Checks a CustomResourceDefinition, and creates a checker for its custom resources. The definition is a YAML
    /// string, or a value that serializes to a definition. An example is `Website::crd()`, if `Website` is a derived
    /// custom resource type.
    ///
    /// # Errors
    ///
    /// Returns an error if kube-apiserver would reject the definition, or would not serve it.
    pub fn new(definition: impl Serialize) -> Result<Self, Rejection> {
        let mut checker = Self { offline: Offline::new(), definitions: Vec::new() };
        checker.add(definition)?;
        Ok(checker)
    }

    /// Adds another definition, which replaces any earlier definition with the same name. The kind of this definition
    /// becomes the default for manifests without a kind.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Self::new).
    pub fn add(&mut self, definition: impl Serialize) -> Result<(), Rejection> {
        let defined = self.offline.define(Sample::new(definition)?)?;
        self.definitions.retain(|known| known.name != defined.name);
        self.definitions.push(defined);
        Ok(())
    }

    /// Returns the validation rules of all definitions and their estimated costs.
    pub fn rules(&self) -> impl Iterator<Item = &RuleCost> {
        self.definitions.iter().flat_map(|definition| &definition.rules)
    }

    /// Returns the server's warnings about the definitions.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.definitions.iter().flat_map(|definition| &definition.warnings).map(String::as_str)
    }

    /// Returns the object that the server would store for a create request.
    ///
    /// # Errors
    ///
    /// Returns an error if the manifest cannot be read or the server would reject the object.
    pub fn create(&self, manifest: impl Serialize) -> Result<CheckedObject, Rejection> {
        self.offline.create(self.offline.completed(Sample::new(manifest)?))
    }

    /// Returns the object after an update from `old` to `new`. Transition rules can access `old` as
    /// `oldSelf`. If `new` has no name, the update uses the name of `old`.
    ///
    /// # Errors
    ///
    /// Returns an error if the server would reject `old` or the update.
    pub fn update(&self, old: impl Serialize, new: impl Serialize) -> Result<CheckedObject, Rejection> {
        self.offline.update(Sample::new(old)?, Sample::new(new)?, false)
    }

    /// Returns the object after an update of its `status` subresource from `old` to `new`. The update ignores changes
    /// outside of `status`. The status of `old` is used without defaults and validation.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition has no `status` subresource. Also returns an error if the server would reject
    /// the update, or would reject `old` without its status.
    pub fn update_status(&self, old: impl Serialize, new: impl Serialize) -> Result<CheckedObject, Rejection> {
        self.offline.update(Sample::new(old)?, Sample::new(new)?, true)
    }

    /// Asserts that the server would accept a create request for the object.
    ///
    /// # Panics
    ///
    /// Panics with the server's error if the server would reject the object.
    #[track_caller]
    pub fn assert_accepts(&self, manifest: impl Serialize) {
        if let Err(rejection) = self.create(manifest) {
            panic!("the object is rejected: {rejection}");
        }
    }

    /// Asserts that the server would reject a create request for the object with an error that contains `message`.
    ///
    /// # Panics
    ///
    /// Panics if the server would accept the object, or if the error would not contain `message`.
    #[track_caller]
    pub fn assert_rejects(&self, manifest: impl Serialize, message: &str) {
        expect(self.create(manifest), message);
    }

    /// Asserts that the server would accept an update of the object from `old` to `new`.
    ///
    /// # Panics
    ///
    /// Panics with the server's error if the server would reject `old` or the update.
    #[track_caller]
    pub fn assert_accepts_update(&self, old: impl Serialize, new: impl Serialize) {
        if let Err(rejection) = self.update(old, new) {
            panic!("the update is rejected: {rejection}");
        }
    }

    /// Asserts that the server would reject an update from `old` to `new` with an error that contains `message`.
    ///
    /// # Panics
    ///
    /// Panics if the server would accept the update, or if the error would not contain `message`. Also panics if the
    /// server would reject the creation of `old`.
    #[track_caller]
    pub fn assert_rejects_update(&self, old: impl Serialize + Clone, new: impl Serialize, message: &str) {
        self.assert_accepts(old.clone());
        expect(self.update(old, new), message);
    }
}

#[track_caller]
fn expect(outcome: Result<CheckedObject, Rejection>, message: &str) {
    match outcome {
        Ok(checked) => panic!("the object is accepted, but must be rejected with {message:?}: {}", checked.object),
        Err(rejection) => {
            let text = rejection.to_string();
            assert!(text.contains(message), "the error has another text than {message:?}: {text}");
        }
    }
}

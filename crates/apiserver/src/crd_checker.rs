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

/// Checks which custom resources a CustomResourceDefinition accepts. The checks work without a server, a runtime or a socket.
///
/// A check uses the same code as the embedded server, so the results and messages of a check are the same as in kube-apiserver. A check
/// prunes the object, adds the defaults, and validates field names strictly. A check also validates the metadata, checks the object against
/// the schema, and evaluates the CEL rules with their cost limits.
///
/// A manifest is a YAML text, or any value that serializes to an object. To keep tests short, a manifest may omit some fields:
///
/// - Without `apiVersion` and `kind`, the manifest has the kind and the storage version of the definition.
/// - Without `metadata.name` and `metadata.generateName`, the name is `sample`.
/// - Without `metadata.namespace`, the namespace is `default`. All namespaces exist.
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
    /// The definitions in the order in which they were added.
    definitions: Vec<Defined>,
}

/// A custom resource that the server would accept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckedObject {
    /// The object as the server would return it, after pruning and with its defaults.
    pub object: serde_json::Value,
    /// The warnings that the server would send for the request.
    pub warnings: Vec<String>,
}

impl CrdChecker {
    /// Checks a CustomResourceDefinition and creates a checker that uses it. The definition is a YAML text, or a value that serializes to a
    /// definition, such as `Website::crd()`.
    ///
    /// # Errors
    ///
    /// Returns an error if kube-apiserver would reject the definition, or would not serve it.
    pub fn new(definition: impl Serialize) -> Result<Self, Rejection> {
        let mut checker = Self { offline: Offline::new(), definitions: Vec::new() };
        checker.add(definition)?;
        Ok(checker)
    }

    /// Adds another definition. The new definition replaces an earlier definition with the same name. After this call, manifests without a
    /// kind have the kind of this definition.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
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

    /// Returns the warnings that the server would send for the definitions.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.definitions.iter().flat_map(|definition| &definition.warnings).map(String::as_str)
    }

    /// Returns the object that the server would create.
    ///
    /// # Errors
    ///
    /// Returns an error if the manifest cannot be read, or if the server would reject the object.
    pub fn create(&self, manifest: impl Serialize) -> Result<CheckedObject, Rejection> {
        self.offline.create(self.offline.completed(Sample::new(manifest)?))
    }

    /// Returns the object after an update from `old` to `new`. Transition rules can access `old` as `oldSelf`. If `new` has no name, it
    /// gets the name of `old`.
    ///
    /// # Errors
    ///
    /// Returns an error if the server would reject the object `old` or the update.
    pub fn update(&self, old: impl Serialize, new: impl Serialize) -> Result<CheckedObject, Rejection> {
        self.offline.update(Sample::new(old)?, Sample::new(new)?, false)
    }

    /// Returns the object after an update of its subresource `status`. The update ignores changes outside of `status`. The check uses the
    /// status of `old` unchanged. The check does not add defaults to this status and does not validate the status.
    ///
    /// # Errors
    ///
    /// Returns an error if the server would reject the update, or the object `old` without its status. If the definition has no subresource
    /// `status`, this method returns an error, too.
    pub fn update_status(&self, old: impl Serialize, new: impl Serialize) -> Result<CheckedObject, Rejection> {
        self.offline.update(Sample::new(old)?, Sample::new(new)?, true)
    }

    /// Asserts that the server would accept the creation of the object.
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

    /// Asserts that the server would reject the creation of the object with an error that contains `message`.
    ///
    /// # Panics
    ///
    /// Panics if the server would accept the object, or if the server's error would not contain `message`.
    #[track_caller]
    pub fn assert_rejects(&self, manifest: impl Serialize, message: &str) {
        expect(self.create(manifest), message);
    }

    /// Asserts that the server would accept an update of the object from `old` to `new`.
    ///
    /// # Panics
    ///
    /// Panics with the server's error if the server would reject the object `old` or the update.
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
    /// Panics if the server would accept the update, or if the server's error would not contain `message`. This method also panics if the
    /// server would already reject the object `old`.
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

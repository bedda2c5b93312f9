//! The CustomResourceDefinition type.

use pintle_meta::__private::or_empty;
use pintle_meta::{Conditions, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// An `apiextensions.k8s.io/v1` CustomResourceDefinition with a JSON spec. The serialized form contains `apiVersion`
/// and `kind`, so kubectl can apply its YAML.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomResourceDefinition {
    #[serde(default = "api_version")]
    api_version: String,
    #[serde(default = "kind")]
    kind: String,
    /// The metadata. The name of a definition is `plural.group`.
    pub metadata: ObjectMeta,
    /// The spec as JSON, which contains the names, the scope and the versions.
    pub spec: Value,
    /// The status of the definition, which only the server sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DefinitionStatus>,
    /// The `Cargo.toml` version of the package that built this definition. The field is not serialized, so that a
    /// release does not change the manifest.
    #[serde(skip)]
    built_by: Option<&'static str>,
}

impl PartialEq for CustomResourceDefinition {
    /// Compares only the serialized fields, which exclude `built_by`.
    fn eq(&self, other: &Self) -> bool {
        (&self.api_version, &self.kind, &self.metadata) == (&other.api_version, &other.kind, &other.metadata)
            && self.spec == other.spec
            && self.status == other.status
    }
}

pintle_meta::resource!(
    CustomResourceDefinition,
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    Cluster
);

/// The annotation for the version of the program that installed a definition.
pub const PACKAGE_VERSION: &str = "pintle-package-version";

fn api_version() -> String {
    "apiextensions.k8s.io/v1".into()
}

fn kind() -> String {
    "CustomResourceDefinition".into()
}

/// The status of a [`CustomResourceDefinition`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionStatus {
    /// The conditions of the definition, such as `Established`.
    #[serde(default)]
    pub conditions: Conditions,
    /// The versions that stored objects may still have.
    #[serde(default, deserialize_with = "or_empty")]
    pub stored_versions: Vec<String>,
}

impl CustomResourceDefinition {
    pub(crate) fn new(name: &str, spec: Value, built_by: Option<&'static str>) -> Self {
        let metadata = ObjectMeta::new("", name);
        Self { api_version: api_version(), kind: kind(), metadata, spec, status: None, built_by }
    }

    /// Converts a definition from another library, such as the result of `crd` for a type with kube's
    /// `#[derive(CustomResource)]`.
    ///
    /// # Errors
    ///
    /// Returns an error if `definition` is not serialized as an `apiextensions.k8s.io/v1` CustomResourceDefinition.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_crd::CustomResourceDefinition;
    /// use serde_json::json;
    ///
    /// let foreign = json!({
    ///     "apiVersion": "apiextensions.k8s.io/v1",
    ///     "kind": "CustomResourceDefinition",
    ///     "metadata": {"name": "websites.example.com"},
    ///     "spec": {"versions": [{"name": "v1", "served": true}]},
    /// });
    /// let definition = CustomResourceDefinition::from_foreign(&foreign)?;
    /// assert_eq!(definition.served_versions(), ["v1"]);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn from_foreign(definition: &impl Serialize) -> Result<Self, serde_json::Error> {
        let definition: Self = serde_json::from_value(serde_json::to_value(definition)?)?;
        let expected = (api_version(), kind());
        if (&definition.api_version, &definition.kind) != (&expected.0, &expected.1) {
            let found = format!("{} {}", definition.api_version, definition.kind);
            let advice = format!("{found} is not a CustomResourceDefinition of {}", expected.0);
            return Err(<serde_json::Error as serde::de::Error>::custom(advice));
        }
        Ok(definition)
    }

    /// Returns `true` if the condition `Established` is true, which means that the server serves the resource.
    pub fn is_established(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.conditions.is_true("Established"))
    }

    /// Returns the version of the program that installed or will install this definition, such as `1.4.0`. For an
    /// installed definition, the version comes from the annotation [`PACKAGE_VERSION`]. For a definition from
    /// [`crd`](crate::CustomResource::crd), the version comes from the `Cargo.toml` of the type's package.
    pub fn package_version(&self) -> Option<&str> {
        let annotation = self.metadata.annotations.get(PACKAGE_VERSION).map(String::as_str);
        annotation.or(self.built_by)
    }

    /// Sets the annotation [`PACKAGE_VERSION`] to the SemVer version of the program that installs this definition. An
    /// operator with a lower version does not replace the definition.
    #[must_use]
    pub fn with_package_version(mut self, version: impl Into<String>) -> Self {
        self.metadata.annotations.insert(PACKAGE_VERSION.into(), version.into());
        self
    }

    /// Returns the names of the served versions.
    pub fn served_versions(&self) -> Vec<&str> {
        let versions = self.spec["versions"].as_array().into_iter().flatten();
        versions.filter(|version| version["served"] == true).filter_map(|version| version["name"].as_str()).collect()
    }

    /// Merges the definitions for several versions of a kind into one definition. The merged versions keep their order.
    /// The storage version determines the resource names.
    ///
    /// # Errors
    ///
    /// - The definitions have different names.
    /// - A version occurs twice.
    /// - No version or more than one version is the storage version.
    ///
    /// # Examples
    ///
    /// ```
    /// # use pintle_crd::{CustomResource, CustomResourceDefinition, Resource};
    /// # use pintle_meta::ObjectMeta;
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// #[derive(Resource, Deserialize, Serialize, JsonSchema)]
    /// #[resource(crate = pintle_crd, group = "example.com", version = "v1", kind = "Website")]
    /// struct Website {
    ///     metadata: ObjectMeta,
    /// }
    ///
    /// #[derive(Resource, Deserialize, Serialize, JsonSchema)]
    /// #[resource(crate = pintle_crd, group = "example.com", version = "v1alpha1", kind = "Website", stored = false)]
    /// struct OldWebsite {
    ///     metadata: ObjectMeta,
    /// }
    ///
    /// let crd = CustomResourceDefinition::merge([Website::crd(), OldWebsite::crd()])?;
    /// assert_eq!(crd.spec["versions"][1]["name"], "v1alpha1");
    /// # Ok::<(), pintle_crd::MergeError>(())
    /// ```
    pub fn merge(definitions: impl IntoIterator<Item = Self>) -> Result<Self, MergeError> {
        let mut versions = Vec::new();
        let mut stored = None::<Self>;
        let mut name = None::<String>;
        for mut definition in definitions {
            let first = name.get_or_insert_with(|| definition.metadata.name.clone());
            if *first != definition.metadata.name {
                return Err(MergeError::Names(first.clone(), definition.metadata.name));
            }
            let own = definition.spec["versions"].take();
            let Value::Array(own) = own else { continue };
            let is_stored = own.iter().any(|version| version["storage"] == true);
            versions.extend(own);
            if is_stored && stored.replace(definition).is_some() {
                return Err(MergeError::Stored(2));
            }
        }
        let mut merged = stored.ok_or(MergeError::Stored(0))?;
        let repeated = |at: usize| versions[..at].iter().any(|other: &Value| other["name"] == versions[at]["name"]);
        if let Some(at) = (0..versions.len()).find(|at| repeated(*at)) {
            return Err(MergeError::Repeated(versions[at]["name"].as_str().unwrap_or_default().into()));
        }
        merged.spec["versions"] = versions.into();
        Ok(merged)
    }
}

/// An error from [`CustomResourceDefinition::merge`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The definitions have different names. The error contains two of these names.
    #[error("{0:?} and {1:?} are different definitions; give all versions the same group and plural")]
    Names(String, String),
    /// The merged definition would have this number of storage versions instead of one.
    #[error("{}", stored(*.0))]
    Stored(usize),
    /// Two definitions contain this version.
    #[error("the version {0:?} occurs twice")]
    Repeated(String),
}

fn stored(versions: usize) -> &'static str {
    match versions {
        0 => "no version is stored; one of the versions must not have `stored = false`",
        _ => "several versions are stored; add `stored = false` to all but one",
    }
}

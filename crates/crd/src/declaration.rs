//! The declarations of a custom resource.

/// The declarations of a custom resource that are not part of [`Resource`](pintle_meta::Resource).
/// `#[derive(Resource)]` sets these fields from its attributes.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The singular name of the resource, which kubectl commands accept.
    pub singular: &'static str,
    /// The short names of the resource, which kubectl commands accept.
    pub short_names: &'static [&'static str],
    /// The categories of the resource, such as `all`. kubectl commands accept these names.
    pub categories: &'static [&'static str],
    /// Whether the status is a subresource.
    pub has_status: bool,
    /// The scale subresource, if the resource has one.
    pub scale: Option<Scale>,
    /// The printer columns.
    pub columns: &'static [Column],
    /// The JSON paths of the fields that field selectors may use.
    pub selectable_fields: &'static [&'static str],
    /// The CEL rules for the whole object, each with its error message.
    pub rules: &'static [(&'static str, Option<&'static str>)],
    /// Whether this version is deprecated. If `true`, clients that use the version get a warning.
    pub is_deprecated: bool,
    /// The text of the deprecation warning. `None` means kube-apiserver's default text.
    pub deprecation_warning: Option<&'static str>,
    /// Whether the API server serves this version.
    pub is_served: bool,
    /// Whether objects are stored in this version. A definition must store exactly one version.
    pub is_stored: bool,
    /// The version of the package that defines the resource, as in its `Cargo.toml`. If programs with different versions install the
    /// definition, the definition from the greatest version is kept. `None` if the version is unknown.
    pub package_version: Option<&'static str>,
}

/// The declaration in the code that the derive macro generates for wrong attributes. This code never runs.
pub const NO_DECLARATION: Declaration = Declaration {
    singular: "",
    short_names: &[],
    categories: &[],
    has_status: false,
    scale: None,
    columns: &[],
    selectable_fields: &[],
    rules: &[],
    is_deprecated: false,
    deprecation_warning: None,
    is_served: true,
    is_stored: true,
    package_version: None,
};

/// The JSON paths that the scale subresource uses.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The path of the field that contains the desired number of replicas. The field is below `.spec`.
    pub spec_replicas: &'static str,
    /// The path of the field that contains the observed number of replicas. The field is below `.status`.
    pub status_replicas: &'static str,
    /// The path of the field that contains the label selector as a string. A HorizontalPodAutoscaler needs this path.
    pub label_selector: Option<&'static str>,
}

/// A printer column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading of the column.
    pub name: &'static str,
    /// The JSON path of the value.
    pub json_path: &'static str,
    /// The type of the column: `integer`, `number`, `string`, `boolean` or `date`. `None` means the type that the
    /// schema declares for `json_path`.
    pub column_type: Option<&'static str>,
    /// The OpenAPI format of the value.
    pub format: Option<&'static str>,
    /// The description of the column.
    pub description: Option<&'static str>,
    /// The priority of the column. kubectl shows a column with a priority above 0 only in its wide output.
    pub priority: i32,
}

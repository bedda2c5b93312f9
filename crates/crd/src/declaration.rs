//! Custom resource declarations.

/// The attributes of a custom resource that are not in [`Resource`](pintle_meta::Resource). `#[derive(Resource)]` sets
/// these fields.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The singular name that kubectl accepts.
    pub singular: &'static str,
    /// The short names that kubectl accepts.
    pub short_names: &'static [&'static str],
    /// The kubectl categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether the definition has the status subresource.
    pub has_status: bool,
    /// The scale subresource, if any.
    pub scale: Option<Scale>,
    /// The printer columns.
    pub columns: &'static [Column],
    /// The JSON paths of the fields that field selectors can use.
    pub selectable_fields: &'static [&'static str],
    /// The CEL rules that apply to the whole object, each with an optional error message.
    pub rules: &'static [(&'static str, Option<&'static str>)],
    /// Whether this version is deprecated, so that the API server warns clients that use it.
    pub is_deprecated: bool,
    /// The deprecation warning, or `None` for kube-apiserver's default text.
    pub deprecation_warning: Option<&'static str>,
    /// Whether the API server serves this version.
    pub is_served: bool,
    /// Whether this is the storage version. Exactly one version of a definition is the storage version.
    pub is_stored: bool,
    /// The version in the `Cargo.toml` of the package that defines the resource, or `None` if unknown. If two programs
    /// install different versions of a definition, the higher version wins.
    pub package_version: Option<&'static str>,
}

/// A placeholder for structs with invalid attributes. The placeholder is never used at run time, because the derive
/// macro reports an invalid attribute as a compile error.
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

/// The JSON paths of the scale subresource.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The JSON path of the desired number of replicas, under `.spec`.
    pub spec_replicas: &'static str,
    /// The JSON path of the observed number of replicas, under `.status`.
    pub status_replicas: &'static str,
    /// The JSON path of the label selector in string form, which a HorizontalPodAutoscaler requires.
    pub label_selector: Option<&'static str>,
}

/// A printer column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading of the column.
    pub name: &'static str,
    /// The JSON path of the column's value in the object.
    pub json_path: &'static str,
    /// The type of the column: `integer`, `number`, `string`, `boolean` or `date`. If `None`, the column has the type
    /// that the schema has for `json_path`.
    pub column_type: Option<&'static str>,
    /// The OpenAPI format of the column, such as `int32`.
    pub format: Option<&'static str>,
    /// The description of the column.
    pub description: Option<&'static str>,
    /// The column's priority. kubectl shows columns with a priority above 0 only in its wide output.
    pub priority: i32,
}

//! The declarations of a custom resource.

/// The declarations of a custom resource that are not part of [`Resource`](pintle_meta::Resource). `#[derive(Resource)]` sets
/// the fields from the attributes.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The singular name, which kubectl accepts.
    pub singular: &'static str,
    /// The short names, which kubectl accepts.
    pub short_names: &'static [&'static str],
    /// The categories, which kubectl accepts, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether the status is a subresource.
    pub has_status: bool,
    /// The scale subresource.
    pub scale: Option<Scale>,
    /// The printer columns.
    pub columns: &'static [Column],
    /// The JSON paths of the fields that field selectors may use.
    pub selectable_fields: &'static [&'static str],
    /// CEL rules for the whole object, each with its message.
    pub rules: &'static [(&'static str, Option<&'static str>)],
    /// Whether the version is deprecated. If `true`, clients get a warning.
    pub is_deprecated: bool,
    /// The text of the deprecation warning. `None` means kube-apiserver's default text.
    pub deprecation_warning: Option<&'static str>,
    /// Whether the version is served.
    pub is_served: bool,
    /// Whether objects are stored in this version. Exactly one version of a definition must be stored.
    pub is_stored: bool,
}

/// The JSON paths of the scale subresource.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The path of the desired number of replicas, below `.spec`.
    pub spec_replicas: &'static str,
    /// The path of the observed number of replicas, below `.status`.
    pub status_replicas: &'static str,
    /// The path of the label selector as a string. A HorizontalPodAutoscaler needs it.
    pub label_selector: Option<&'static str>,
}

/// A printer column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The JSON path of the value.
    pub json_path: &'static str,
    /// The type: `integer`, `number`, `string`, `boolean` or `date`. `None` means the type in the schema.
    pub column_type: Option<&'static str>,
    /// The OpenAPI format.
    pub format: Option<&'static str>,
    /// The description.
    pub description: Option<&'static str>,
    /// The priority. Columns with a priority above 0 are shown only in the wide output.
    pub priority: i32,
}

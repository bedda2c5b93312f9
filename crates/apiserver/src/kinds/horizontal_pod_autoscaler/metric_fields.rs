//! What the two versions call the fields of metrics and of scaling rules.

/// What a field of the older version holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldForm {
    /// Text that is there even if it is empty.
    Text,
    /// An amount that is there even if it is nothing.
    Amount,
    /// Anything, or nothing at all.
    Optional,
    /// What names another object.
    Reference,
    Selector,
}

/// A field of the older version, where the newer has it, and what it holds.
pub(super) type MetricField = (&'static str, &'static str, FieldForm);

/// The sources of metrics with their fields, in the order of the older version.
pub(super) const SOURCES: &[(&str, &[MetricField])] = &[
    (
        "object",
        &[
            ("target", "/describedObject", FieldForm::Reference),
            ("metricName", "/metric/name", FieldForm::Text),
            ("targetValue", "/target/value", FieldForm::Amount),
            ("selector", "/metric/selector", FieldForm::Selector),
            ("averageValue", "/target/averageValue", FieldForm::Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", FieldForm::Text),
            ("targetAverageValue", "/target/averageValue", FieldForm::Amount),
            ("selector", "/metric/selector", FieldForm::Selector),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", FieldForm::Text),
            ("targetAverageUtilization", "/target/averageUtilization", FieldForm::Optional),
            ("targetAverageValue", "/target/averageValue", FieldForm::Optional),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", FieldForm::Text),
            ("targetAverageUtilization", "/target/averageUtilization", FieldForm::Optional),
            ("targetAverageValue", "/target/averageValue", FieldForm::Optional),
            ("container", "/container", FieldForm::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", FieldForm::Text),
            ("metricSelector", "/metric/selector", FieldForm::Selector),
            ("targetValue", "/target/value", FieldForm::Optional),
            ("targetAverageValue", "/target/averageValue", FieldForm::Optional),
        ],
    ),
];

/// The same for metrics as they are measured.
pub(super) const CURRENT: &[(&str, &[MetricField])] = &[
    (
        "object",
        &[
            ("target", "/describedObject", FieldForm::Reference),
            ("metricName", "/metric/name", FieldForm::Text),
            ("currentValue", "/current/value", FieldForm::Amount),
            ("selector", "/metric/selector", FieldForm::Selector),
            ("averageValue", "/current/averageValue", FieldForm::Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", FieldForm::Text),
            ("currentAverageValue", "/current/averageValue", FieldForm::Amount),
            ("selector", "/metric/selector", FieldForm::Selector),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", FieldForm::Text),
            ("currentAverageUtilization", "/current/averageUtilization", FieldForm::Optional),
            ("currentAverageValue", "/current/averageValue", FieldForm::Amount),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", FieldForm::Text),
            ("currentAverageUtilization", "/current/averageUtilization", FieldForm::Optional),
            ("currentAverageValue", "/current/averageValue", FieldForm::Amount),
            ("container", "/container", FieldForm::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", FieldForm::Text),
            ("metricSelector", "/metric/selector", FieldForm::Selector),
            ("currentValue", "/current/value", FieldForm::Amount),
            ("currentAverageValue", "/current/averageValue", FieldForm::Optional),
        ],
    ),
];

pub(super) const SCALING_RULES: &[(&str, &str)] = &[("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
pub(super) const SCALING_RULE: &[(&str, &str)] = &[
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
pub(super) const POLICY: &[(&str, &str)] = &[("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

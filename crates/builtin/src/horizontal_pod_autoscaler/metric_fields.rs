//! The names of the fields of metrics and scaling rules in v1 and v2.

/// The type of a metric field in v1. The type determines the v1 value if the v2 object does not have the field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldForm {
    /// A string, which is written even if the v2 object does not have the field.
    Text,
    /// A quantity, which is written even if the v2 object does not have the field.
    Amount,
    /// A value that is omitted if the v2 object does not have the field.
    Optional,
    /// A reference to an object.
    Reference,
    Selector,
}

/// The name of a field in v1, its JSON pointer in v2, and its type in v1.
pub(super) type MetricField = (&'static str, &'static str, FieldForm);

/// The metric sources and their fields, in the order of v1.
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

/// The sources of current metrics and their fields, in the order of v1.
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

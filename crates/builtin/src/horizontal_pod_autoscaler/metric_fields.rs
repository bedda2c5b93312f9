//! The field names of metrics and scaling rules in v1 and v2.

/// A metric field's type in v1, which determines what v1 contains if v2 lacks the field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldForm {
    /// A string, which is written even if v2 lacks the field.
    Text,
    /// A quantity, which is written even if v2 lacks the field.
    Amount,
    /// A value that is omitted if v2 lacks the field.
    Optional,
    /// A reference to an object.
    Reference,
    Selector,
}

/// A field's name in v1, its JSON pointer in v2, and its type in v1.
pub(super) type MetricField = (&'static str, &'static str, FieldForm);

/// The metric sources with their fields, in v1's order.
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

/// The current metrics' sources with their fields, in v1's order.
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

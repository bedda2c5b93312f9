//! What the two versions call the fields of metrics and of scaling rules.

/// What a field of the older version holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
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
pub(super) type Field = (&'static str, &'static str, Form);

/// The sources of metrics with their fields, in the order of the older version.
pub(super) const SOURCES: &[(&str, &[Field])] = &[
    (
        "object",
        &[
            ("target", "/describedObject", Form::Reference),
            ("metricName", "/metric/name", Form::Text),
            ("targetValue", "/target/value", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
            ("averageValue", "/target/averageValue", Form::Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("targetAverageValue", "/target/averageValue", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", Form::Text),
            ("targetAverageUtilization", "/target/averageUtilization", Form::Optional),
            ("targetAverageValue", "/target/averageValue", Form::Optional),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", Form::Text),
            ("targetAverageUtilization", "/target/averageUtilization", Form::Optional),
            ("targetAverageValue", "/target/averageValue", Form::Optional),
            ("container", "/container", Form::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("metricSelector", "/metric/selector", Form::Selector),
            ("targetValue", "/target/value", Form::Optional),
            ("targetAverageValue", "/target/averageValue", Form::Optional),
        ],
    ),
];

/// The same for metrics as they are measured.
pub(super) const CURRENT: &[(&str, &[Field])] = &[
    (
        "object",
        &[
            ("target", "/describedObject", Form::Reference),
            ("metricName", "/metric/name", Form::Text),
            ("currentValue", "/current/value", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
            ("averageValue", "/current/averageValue", Form::Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("currentAverageValue", "/current/averageValue", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", Form::Text),
            ("currentAverageUtilization", "/current/averageUtilization", Form::Optional),
            ("currentAverageValue", "/current/averageValue", Form::Amount),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", Form::Text),
            ("currentAverageUtilization", "/current/averageUtilization", Form::Optional),
            ("currentAverageValue", "/current/averageValue", Form::Amount),
            ("container", "/container", Form::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("metricSelector", "/metric/selector", Form::Selector),
            ("currentValue", "/current/value", Form::Amount),
            ("currentAverageValue", "/current/averageValue", Form::Optional),
        ],
    ),
];

pub(super) const RULES: &[(&str, &str)] = &[("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
pub(super) const RULE: &[(&str, &str)] = &[
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
pub(super) const POLICY: &[(&str, &str)] = &[("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

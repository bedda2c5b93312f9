//! The field names of metrics and scaling rules in v1 and v2.

use FieldForm::{Amount, Optional, Reference, Selector, Text};

/// The v1 type of a metric field, which determines its v1 value if the v2 object does not have the field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldForm {
    /// A string, which is written even if the v2 object does not have the field.
    Text,
    /// A quantity, which is written even if the v2 object does not have the field.
    Amount,
    /// A value that is omitted if the v2 object does not have the field.
    Optional,
    Reference,
    Selector,
}

/// A metric source, the name of a field in v1, its JSON pointer in v2, and its type in v1.
pub(super) type MetricField = (&'static str, &'static str, &'static str, FieldForm);

/// The fields of each metric source, in the order of v1.
pub(super) const SOURCES: &[MetricField] = &[
    ("object", "target", "/describedObject", Reference),
    ("object", "metricName", "/metric/name", Text),
    ("object", "targetValue", "/target/value", Amount),
    ("object", "selector", "/metric/selector", Selector),
    ("object", "averageValue", "/target/averageValue", Optional),
    ("pods", "metricName", "/metric/name", Text),
    ("pods", "targetAverageValue", "/target/averageValue", Amount),
    ("pods", "selector", "/metric/selector", Selector),
    ("resource", "name", "/name", Text),
    ("resource", "targetAverageUtilization", "/target/averageUtilization", Optional),
    ("resource", "targetAverageValue", "/target/averageValue", Optional),
    ("containerResource", "name", "/name", Text),
    ("containerResource", "targetAverageUtilization", "/target/averageUtilization", Optional),
    ("containerResource", "targetAverageValue", "/target/averageValue", Optional),
    ("containerResource", "container", "/container", Text),
    ("external", "metricName", "/metric/name", Text),
    ("external", "metricSelector", "/metric/selector", Selector),
    ("external", "targetValue", "/target/value", Optional),
    ("external", "targetAverageValue", "/target/averageValue", Optional),
];

pub(super) const CURRENT: &[MetricField] = &[
    ("object", "target", "/describedObject", Reference),
    ("object", "metricName", "/metric/name", Text),
    ("object", "currentValue", "/current/value", Amount),
    ("object", "selector", "/metric/selector", Selector),
    ("object", "averageValue", "/current/averageValue", Optional),
    ("pods", "metricName", "/metric/name", Text),
    ("pods", "currentAverageValue", "/current/averageValue", Amount),
    ("pods", "selector", "/metric/selector", Selector),
    ("resource", "name", "/name", Text),
    ("resource", "currentAverageUtilization", "/current/averageUtilization", Optional),
    ("resource", "currentAverageValue", "/current/averageValue", Amount),
    ("containerResource", "name", "/name", Text),
    ("containerResource", "currentAverageUtilization", "/current/averageUtilization", Optional),
    ("containerResource", "currentAverageValue", "/current/averageValue", Amount),
    ("containerResource", "container", "/container", Text),
    ("external", "metricName", "/metric/name", Text),
    ("external", "metricSelector", "/metric/selector", Selector),
    ("external", "currentValue", "/current/value", Amount),
    ("external", "currentAverageValue", "/current/averageValue", Optional),
];

pub(super) const SCALING_RULES: &[(&str, &str)] = &[("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
pub(super) const SCALING_RULE: &[(&str, &str)] = &[
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
pub(super) const POLICY: &[(&str, &str)] = &[("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

pub(super) fn by_source(
    fields: &'static [MetricField],
) -> impl Iterator<Item = (&'static str, &'static [MetricField])> {
    fields.chunk_by(|one, next| one.0 == next.0).filter_map(|fields| Some((fields.first()?.0, fields)))
}

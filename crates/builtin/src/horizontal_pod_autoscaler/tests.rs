//! Tests of the conversion between HorizontalPodAutoscaler versions.

use pintle_json::{Json, json};
use pintle_kinds::Strategy;

use super::{V1, V2, conversion, notes};

/// Returns a v2 object with all fields that do not exist in v1.
fn full_object() -> Json {
    let selector =
        json!({"matchLabels": {"b": "1", "a": "2"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]});
    let mut object = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "annotations": {"k": "v"}},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "maxReplicas": 3,
            "metrics": [
                {"type": "Object", "object": {
                    "describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m", "selector": selector},
                    "target": {"type": "AverageValue", "averageValue": "2k"}}},
                {"type": "Pods", "pods": {"metric": {"name": "p"}, "target": {"type": "AverageValue", "averageValue": "1"}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1m"}}},
                {"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "Value", "value": "3"}}},
                {"type": "ContainerResource", "containerResource": {
                    "name": "cpu", "container": "c", "target": {"type": "Utilization", "averageUtilization": 6}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 7}}},
            ],
            "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]}},
        },
        "status": {
            "currentReplicas": 1, "desiredReplicas": 2,
            "currentMetrics": [{"type": "Resource", "resource": {
                "name": "cpu", "current": {"averageUtilization": 7, "averageValue": "10m"}}}],
            "conditions": [{"type": "A", "status": "True", "lastTransitionTime": null, "message": "a < b & \"c\""}],
        },
    });
    V2.defaults(&mut object);
    object
}

#[test]
fn round_trip_through_v1_is_lossless() {
    let new = full_object();
    let old = conversion::to_old(&new);
    assert_eq!(conversion::to_new(&old), new);
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 7);
    assert_eq!(old["status"]["currentCPUUtilizationPercentage"], 7);
}

#[test]
fn fields_missing_in_v1_become_annotations_in_go_format() {
    let old = conversion::to_old(&full_object());
    let metrics = concat!(
        r#"[{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","targetValue":"0","#,
        r#""selector":{"matchLabels":{"a":"2","b":"1"},"matchExpressions":[{"key":"x","operator":"Exists"}]},"#,
        r#""averageValue":"2k"}},{"type":"Pods","pods":{"metricName":"p","targetAverageValue":"1"}},"#,
        r#"{"type":"Resource","resource":{"name":"cpu","targetAverageValue":"1m"}},"#,
        r#"{"type":"External","external":{"metricName":"e","targetValue":"3"}},"#,
        r#"{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":6,"container":"c"}}]"#,
    );
    let behavior = concat!(
        r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","#,
        r#""Policies":[{"Type":"Pods","Value":2,"PeriodSeconds":30}],"Tolerance":null},"#,
        r#""ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","#,
        r#""Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#,
    );
    let current =
        r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"10m"}}]"#;
    let conditions = r#"[{"type":"A","status":"True","lastTransitionTime":null,"message":"a \u003c b \u0026 \"c\""}]"#;
    for (name, expected) in [
        (notes::METRICS, metrics),
        (notes::BEHAVIOR, behavior),
        (notes::CURRENT_METRICS, current),
        (notes::CONDITIONS, conditions),
        ("k", "v"),
    ] {
        assert_eq!(notes::text(&old, name), Some(expected), "{name}");
    }
}

#[test]
fn unreadable_annotations_are_ignored_and_removed() {
    for text in ["nonsense", "{}", "[1]", r#"[{"type":5}]"#, r#"[{"type":"Pods","pods":{"metricName":5}}]"#] {
        let mut old =
            json!({"metadata": {"annotations": {(notes::METRICS): text, (notes::BEHAVIOR): text}}, "spec": {}});
        V1.defaults(&mut old);
        assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 80, "{text}");
        assert_eq!(old["metadata"].get("annotations"), None, "{text}");
    }
}

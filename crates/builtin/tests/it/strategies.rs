//! Tests of the built-in kinds' defaults, validation and update rules.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::{Json, json};
use pintle_kinds::{Kind, ServedSubresource};
use pintle_meta::GroupResource;

pub(super) struct EmptyCluster;

impl Cluster for EmptyCluster {
    fn holder(&self, _: &str) -> Option<Arc<str>> {
        None
    }

    fn object(&self, _: &GroupResource, _: &str, _: &str) -> Option<Arc<Json>> {
        None
    }

    fn objects(&self, _: &GroupResource, _: Option<&str>) -> Vec<Arc<Json>> {
        Vec::new()
    }
}

pub(super) fn kind(group: &str, version: &str, plural: &str) -> Arc<Kind> {
    pintle_builtin::kinds().resource(group, version, plural).expect("a built-in kind").clone()
}

static ANONYMOUS: LazyLock<User> = LazyLock::new(User::default);

pub(super) fn context(cluster: &dyn Cluster) -> Context<'_> {
    Context { now: Timestamp::UNIX_EPOCH, cluster, user: &ANONYMOUS, has_labels: true }
}

pub(super) fn pod_spec(more: Json) -> Json {
    let mut spec = json!({"containers": [{"name": "c", "image": "nginx"}]});
    more.members("").for_each(|(key, value)| spec[key] = value.clone());
    spec
}

pub(super) fn template(more: Json) -> Json {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(more)})
}

/// Applies the defaults and checks the value at a JSON pointer. Applying the defaults a second time must change
/// nothing.
#[track_caller]
fn check_default(resource: (&str, &str, &str), object: Json, pointer: &str, expected: Json) {
    let mut made = object.clone();
    kind(resource.0, resource.1, resource.2).set_defaults(&mut made);
    assert_eq!(made.at(pointer).unwrap_or(&Json::Null), &expected, "{resource:?} {object} {pointer}");
    let once = made.clone();
    kind(resource.0, resource.1, resource.2).set_defaults(&mut made);
    assert_eq!(made, once, "defaulting twice changes {object}");
}

#[test]
fn missing_fields_get_their_defaults() {
    let pods = ("", "v1", "pods");
    let container = |more: Json| json!({"spec": pod_spec(json!({"containers": [more]}))});
    let deployments = ("apps", "v1", "deployments");
    let jobs = ("batch", "v1", "jobs");
    let services = ("", "v1", "services");
    let sets = ("apps", "v1", "statefulsets");
    for (resource, object, pointer, expected) in [
        (
            sets,
            json!({"spec": {"volumeClaimTemplates": [{"apiVersion": "a", "kind": "A"}]}}),
            "/spec/volumeClaimTemplates/0/kind",
            json!("PersistentVolumeClaim"),
        ),
        (pods, json!({"spec": pod_spec(json!({}))}), "/spec/restartPolicy", json!("Always")),
        (
            pods,
            json!({"spec": pod_spec(json!({"terminationGracePeriodSeconds": -1}))}),
            "/spec/terminationGracePeriodSeconds",
            json!(1),
        ),
        (pods, container(json!({"image": "x:1"})), "/spec/containers/0/imagePullPolicy", json!("IfNotPresent")),
        (pods, container(json!({"image": "host:5000/x"})), "/spec/containers/0/imagePullPolicy", json!("Always")),
        (
            pods,
            container(json!({"resources": {"limits": {"cpu": "1"}}})),
            "/spec/containers/0/resources/requests",
            json!({"cpu": "1"}),
        ),
        (
            pods,
            container(json!({"livenessProbe": {"httpGet": {"port": 1}}})),
            "/spec/containers/0/livenessProbe/httpGet",
            json!({"port": 1, "path": "/", "scheme": "HTTP"}),
        ),
        (pods, json!({"spec": pod_spec(json!({"volumes": [{"name": "v"}]}))}), "/spec/volumes/0/emptyDir", json!({})),
        (deployments, json!({"spec": {}}), "/spec/replicas", json!(1)),
        (
            deployments,
            json!({"spec": {"strategy": {"type": "Recreate"}}}),
            "/spec/strategy",
            json!({"type": "Recreate"}),
        ),
        (
            deployments,
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}}),
            "/spec/strategy",
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}),
        ),
        (jobs, json!({"spec": {"template": template(json!({}))}}), "/spec/completions", json!(1)),
        (jobs, json!({"spec": {"parallelism": 3, "template": template(json!({}))}}), "/spec/completions", Json::Null),
        (jobs, json!({"spec": {"backoffLimitPerIndex": 1}}), "/spec/backoffLimit", json!(i32::MAX)),
        (services, json!({"spec": {"ports": [{"port": 80}]}}), "/spec/ports/0/targetPort", json!(80)),
        (services, json!({"spec": {"type": "ExternalName"}}), "/spec/internalTrafficPolicy", Json::Null),
        (("", "v1", "secrets"), json!({"stringData": {"a": "x"}}), "/data/a", json!("eA==")),
        (
            ("", "v1", "nodes"),
            json!({"status": {"capacity": {"cpu": "4"}}}),
            "/status/allocatable",
            json!({"cpu": "4"}),
        ),
        (
            ("networking.k8s.io", "v1", "networkpolicies"),
            json!({"spec": {"egress": [{}]}}),
            "/spec/policyTypes",
            json!(["Ingress", "Egress"]),
        ),
        (
            ("rbac.authorization.k8s.io", "v1", "rolebindings"),
            json!({"roleRef": {}, "subjects": [{"kind": "User"}]}),
            "/subjects/0/apiGroup",
            json!("rbac.authorization.k8s.io"),
        ),
    ] {
        check_default(resource, object, pointer, expected);
    }
}

/// Applies the defaults to an object and checks its validation errors. Each expected error has the form `reason field`.
#[track_caller]
pub(super) fn check_errors(resource: (&str, &str, &str), mut object: Json, expected: &[&str]) {
    let kind = kind(resource.0, resource.1, resource.2);
    kind.set_defaults(&mut object);
    let errors = kind.strategy.validate_create(&object);
    let found: Vec<_> = errors
        .iter()
        .map(|error| format!("{} {}", &error.reason.as_str()["FieldValue".len()..], error.field))
        .collect();
    assert_eq!(found, expected, "{resource:?} {object}: {errors:?}");
}

#[test]
fn invalid_fields_are_reported_with_reason_and_path() {
    let pods = ("", "v1", "pods");
    let container = |more: Json| {
        let mut container = json!({"name": "c", "image": "x"});
        more.members("").for_each(|(key, value)| container[key] = value.clone());
        json!({"spec": {"containers": [container]}})
    };
    let deployments = ("apps", "v1", "deployments");
    let selector = json!({"matchLabels": {"app": "a"}});
    let cron = |schedule: &str| {
        let template = template(json!({"restartPolicy": "Never"}));
        json!({"spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}})
    };
    let cron_jobs = ("batch", "v1", "cronjobs");
    for (resource, object, expected) in [
        (pods, json!({"spec": {}}), vec!["Required spec.containers"]),
        (pods, container(json!({"name": "C_1"})), vec!["Invalid spec.containers[0].name"]),
        (
            pods,
            container(json!({"ports": [{"containerPort": 70_000}]})),
            vec!["Invalid spec.containers[0].ports[0].containerPort"],
        ),
        (pods, container(json!({"livenessProbe": {}})), vec!["Required spec.containers[0].livenessProbe"]),
        (
            pods,
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/x"}]})),
            vec!["NotFound spec.containers[0].volumeMounts[0].name"],
        ),
        (
            pods,
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            vec!["Invalid spec.containers[0].resources.requests"],
        ),
        (deployments, json!({"spec": {"selector": selector, "template": template(json!({}))}}), vec![]),
        (
            deployments,
            json!({"spec": {"template": template(json!({}))}}),
            vec!["Required spec.selector", "Invalid spec.template.metadata.labels"],
        ),
        (
            deployments,
            json!({"spec": {"selector": {}, "template": template(json!({}))}}),
            vec!["Invalid spec.selector"],
        ),
        (
            deployments,
            json!({"spec": {"selector": selector, "template": template(json!({"restartPolicy": "Never"}))}}),
            vec!["NotSupported spec.template.spec.restartPolicy"],
        ),
        (cron_jobs, cron("*/15 8-17 * * MON-FRI"), vec![]),
        (cron_jobs, cron("@every 1h"), vec![]),
        (cron_jobs, cron("60 * * * *"), vec!["Invalid spec.schedule"]),
        (cron_jobs, cron("* * * *"), vec!["Invalid spec.schedule"]),
        (cron_jobs, cron(""), vec!["Required spec.schedule"]),
        (("", "v1", "services"), json!({"spec": {}}), vec!["Required spec.ports"]),
        (
            ("", "v1", "services"),
            json!({"spec": {"ports": [{"port": 80}, {"port": 81}]}}),
            vec!["Required spec.ports[0].name", "Required spec.ports[1].name"],
        ),
        (
            ("", "v1", "secrets"),
            json!({"type": "kubernetes.io/tls"}),
            vec!["Required data[tls.crt]", "Required data[tls.key]"],
        ),
        (("", "v1", "configmaps"), json!({"data": {"..": "x"}}), vec!["Invalid data[..]"]),
        (
            ("coordination.k8s.io", "v1", "leases"),
            json!({"spec": {"leaseDurationSeconds": 0}}),
            vec!["Invalid spec.leaseDurationSeconds"],
        ),
        (
            ("policy", "v1", "poddisruptionbudgets"),
            json!({"spec": {"minAvailable": "150%"}}),
            vec!["Invalid spec.minAvailable"],
        ),
    ] {
        check_errors(resource, object, &expected);
    }
}

struct TestCluster(Vec<(&'static str, Json)>);

impl Cluster for TestCluster {
    fn object(&self, resource: &GroupResource, _: &str, name: &str) -> Option<Arc<Json>> {
        let named = |(of, object): &&(&str, Json)| *of == resource.resource && object["metadata"]["name"] == name;
        self.0.iter().find(named).map(|(_, object)| Arc::new(object.clone()))
    }

    fn objects(&self, resource: &GroupResource, _: Option<&str>) -> Vec<Arc<Json>> {
        self.0.iter().filter(|(of, _)| *of == resource.resource).map(|(_, object)| Arc::new(object.clone())).collect()
    }

    fn holder(&self, claim: &str) -> Option<Arc<str>> {
        let claims =
            |(of, object): &&(&str, Json)| pintle_builtin::claims(of, object).iter().any(|claimed| claimed == claim);
        let (_, object) = self.0.iter().find(claims)?;
        let metadata = |name: &str| object["metadata"][name].text("");
        Some(format!("{}/{}", metadata("namespace"), metadata("name")).into())
    }
}

#[test]
fn service_gets_the_first_free_address_and_port() {
    let cluster = TestCluster(vec![(
        "services",
        json!({
            "metadata": {"name": "other", "namespace": "n"},
            "spec": {"type": "NodePort", "clusterIP": "10.0.0.2", "ports": [{"nodePort": 30000}]},
        }),
    )]);
    let mut service =
        json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let kind = kind("", "v1", "services");
    kind.set_defaults(&mut service);
    kind.strategy.allocate(&cluster, &mut service, None, Subresource::None).expect("an address is free");
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.3");
    assert_eq!(service["spec"]["clusterIPs"], json!(["10.0.0.3"]));
    assert_eq!(service["spec"]["ports"][0]["nodePort"], 30001);
}

#[test]
fn address_of_the_kubernetes_service_is_never_allocated() {
    let mut service = json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"ports": [{"port": 80}]}});
    let kind = kind("", "v1", "services");
    kind.set_defaults(&mut service);
    kind.strategy.allocate(&EmptyCluster, &mut service, None, Subresource::None).expect("an address is free");
    assert_eq!(service["spec"]["clusterIP"], "10.0.0.2");
}

#[test]
fn pod_gets_the_priority_of_its_class() {
    let class = json!({"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": "Never"});
    let cluster = TestCluster(vec![("priorityclasses", class)]);
    let kind = kind("", "v1", "pods");
    let admitted = |spec: Json| {
        let mut pod = json!({"metadata": {"name": "a"}, "spec": pod_spec(spec)});
        kind.strategy.admit(&cluster, &mut pod, None, Subresource::None).map(|()| pod["spec"]["priority"].clone())
    };
    assert_eq!(admitted(json!({})).ok(), Some(json!(0)));
    assert_eq!(admitted(json!({"priorityClassName": "high"})).ok(), Some(json!(10)));
    assert_eq!(admitted(json!({"priorityClassName": "none"})).map_err(|failure| failure.code()), Err(403));
    assert_eq!(admitted(json!({"priority": 5})).map_err(|failure| failure.code()), Err(403));
}

#[test]
fn system_priority_classes_have_fixed_values() {
    const CRITICAL: &str = "system-cluster-critical";
    for (name, value, is_default, expected) in [
        (CRITICAL, 2_000_000_000, false, ""),
        ("system-own", 1, false, "system-own is not a known system priority class"),
        (CRITICAL, 1, false, "value of system-cluster-critical PriorityClass must be 2000000000"),
        (CRITICAL, 2_000_000_000, true, "globalDefault of system-cluster-critical PriorityClass must be false"),
        ("own", 1_000_000_001, false, "maximum allowed value of a user defined priority is 1000000000"),
    ] {
        let class = json!({
            "metadata": {"name": name}, "value": value, "globalDefault": is_default, "preemptionPolicy": "Never",
        });
        let errors = kind("scheduling.k8s.io", "v1", "priorityclasses").strategy.validate_create(&class);
        let message: String = errors.iter().map(|error| error.message.clone()).collect();
        assert!(message.ends_with(expected) && message.is_empty() == expected.is_empty(), "{message}");
    }
}

#[test]
fn job_selects_its_pods_by_uid() {
    let kind = kind("batch", "v1", "jobs");
    let mut job = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"template": template(json!({"restartPolicy": "Never"}))}});
    kind.set_defaults(&mut job);
    kind.prepare_for_create(&context(&EmptyCluster), &mut job);
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "a");
    assert_eq!(kind.strategy.validate_create(&job), FieldErrors::default());
}

#[test]
fn both_event_groups_are_views_of_one_object() {
    let new = kind("events.k8s.io", "v1", "events");
    assert_eq!(new.stored_as, kind("", "v1", "events").stored_as);
    let event =
        json!({"apiVersion": "events.k8s.io/v1", "regarding": {"name": "p"}, "note": "x", "reportingController": "c"});
    let stored = new.strategy.to_stored(event);
    assert_eq!(stored["involvedObject"], json!({"name": "p"}));
    assert_eq!((&stored["message"], &stored["apiVersion"]), (&json!("x"), &json!("v1")));
    let shown = new.to_version(&Arc::new(stored));
    assert_eq!((&shown["note"], &shown["reportingController"]), (&json!("x"), &json!("c")));
    assert_eq!(shown.get("message"), None);
}

#[test]
fn transient_and_computed_kinds_have_matching_strategies() {
    for kind in pintle_builtin::kinds().kinds() {
        let is_stored = kind.stored_version.is_some();
        assert_eq!(kind.strategy.post_handler(Subresource::None).is_some(), kind.flags.is_transient, "{kind:?}");
        assert_eq!(kind.strategy.computed_objects().is_some(), !is_stored && !kind.flags.is_transient, "{kind:?}");
        for ServedSubresource { subresource, verbs, .. } in &kind.subresources {
            assert_eq!(
                kind.strategy.post_handler(*subresource).is_some(),
                verbs.contains(&Verb::Create),
                "{kind:?} {subresource:?}"
            );
            assert!(kind.strategy.stream(*subresource).is_none(), "{kind:?} {subresource:?} is in discovery");
        }
    }
}

#[test]
fn max_unavailable_of_a_stateful_set_is_removed() {
    let kind = kind("apps", "v1", "statefulsets");
    let sent = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "partition": 0}}}});
    let (mut made, mut changed) = (sent.clone(), sent.clone());
    kind.prepare_for_create(&context(&EmptyCluster), &mut made);
    kind.strategy.prepare_for_update(&context(&EmptyCluster), &mut changed, &sent, Subresource::None);
    for object in [made, changed] {
        assert_eq!(object["spec"]["updateStrategy"]["rollingUpdate"], json!({"partition": 0}));
    }
}

#[test]
fn scale_shows_and_sets_the_replicas() {
    let kind = kind("apps", "v1", "deployments");
    let scale = kind.scale().expect("deployments scale");
    let selector = json!({"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["y", "x"]}]});
    let deployment =
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 0, "selector": selector}, "status": {"replicas": 3}});
    let shown = scale.read(&deployment).expect("a scale");
    assert_eq!(
        (&shown["spec"], &shown["status"]),
        (&json!({}), &json!({"replicas": 3, "selector": "app=a,t notin (x,y)"}))
    );
    assert_eq!(scale.write(&json!({"spec": {"replicas": 5}}), &deployment)["spec"]["replicas"], 5);
}

#[test]
fn no_strategy_panics_on_malformed_json() {
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!({"metadata": 1, "spec": "x", "status": []}),
        json!({
            "metadata": {"labels": [], "name": 5},
            "spec": {"containers": "x", "ports": [1], "template": [], "selector": 1, "strategy": "x", "volumes": [null, {"name": []}]},
            "data": [], "rules": [1], "subsets": "x", "webhooks": [[]], "endpoints": 5,
        }),
    ];
    for kind in pintle_builtin::kinds().kinds() {
        for object in &odd {
            let mut made = object.clone();
            kind.set_defaults(&mut made);
            kind.prepare_for_create(&context(&EmptyCluster), &mut made);
            kind.strategy.prepare_for_update(&context(&EmptyCluster), &mut made, object, Subresource::None);
            kind.strategy.prepare_for_update(&context(&EmptyCluster), &mut made, object, Subresource::Status);
            let _ = kind.strategy.admit(&EmptyCluster, &mut made, None, Subresource::None).is_ok();
            let _ = kind.strategy.allocate(&EmptyCluster, &mut made, None, Subresource::None).is_ok();
            let _ = kind.strategy.validate_admitted(&EmptyCluster, &made, Some(object), Subresource::None).is_ok();
            kind.strategy.validate_create(&made);
            kind.strategy.validate_update(&made, object, Subresource::None);
            kind.strategy.validate_update(object, &made, Subresource::Status);
            kind.strategy.warnings(object, None, Subresource::None);
            kind.strategy.warnings(object, Some(&made), Subresource::None);
            kind.strategy.warnings(object, Some(&made), Subresource::Status);
            kind.to_version(&Arc::new(kind.strategy.to_stored(made)));
        }
    }
}

#[test]
fn subresources_of_pods_keep_the_metadata() {
    let kind = kind("", "v1", "pods");
    let old = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}});
    for subresource in [Subresource::Resize, Subresource::EphemeralContainers] {
        let mut new = old.clone();
        new["metadata"].set("labels", json!({"c": "d"}));
        new["metadata"].set("annotations", json!({"c": "d"}));
        kind.strategy.prepare_for_update(&context(&EmptyCluster), &mut new, &old, subresource);
        assert_eq!(new["metadata"], old["metadata"], "{subresource:?}");
    }
}

//! Tests that all writes and connect requests call the admission chain, which can change and reject them.

use http::Method;
use pintle_json::{Json, json};

use super::{APPLY, IN, JSON, MERGE, Reaction, SAMPLED_FIELDS, WitnessedServer};

struct Case {
    method: Method,
    /// The request path. A path without a leading slash is relative to the namespace.
    path: &'static str,
    media: &'static str,
    body: Json,
    /// The record that the [`Witness`](super::Witness) plugin must make, without the user.
    record: &'static str,
    code: u16,
    /// Where the change by the `Witness` is visible: a GET of the path returns an object with the given value at the
    /// JSON pointer. If the path is empty, the response to the request itself contains the change.
    seen: (&'static str, &'static str, Json),
}

/// Sends the request four times. The `Witness` rejects the first request in the phase `admit` and the second request in
/// the phase `validate`. The third request is a dry run. In the fourth request, the `Witness` changes the object.
async fn check(server: &WitnessedServer, case: Case) {
    let Case { method, path, media, body, record, code, seen } = case;
    let absolute = |path: &str| if path.starts_with('/') { path.to_owned() } else { format!("{IN}/{path}") };
    let path = absolute(path);
    let record = record.replace(" options", " by jane options");
    let (admit, validate) = (format!("admit {record}"), format!("validate {record}"));
    let warnings = ["\"admit looked\"", "\"validate looked\""];
    for (phase, expected) in [("admit", vec![admit.clone()]), ("validate", vec![admit.clone(), validate])] {
        let revision = server.registry.db.revision();
        server.witness.set_reaction(Reaction::Refuse(phase));
        let answer = server.call(method.clone(), &path, media, &body).await;
        assert_eq!(answer.warnings, warnings[..expected.len()], "{method} {path}");
        assert_eq!((answer.code, server.witness.take_records()), (403, expected), "{method} {path}: {}", answer.body);
        assert!(answer.body.text("/message").ends_with("the witness says no"), "{}", answer.body);
        assert_eq!(server.registry.db.revision(), revision, "{method} {path} was rejected but stored");
    }
    server.witness.set_reaction(Reaction::Change);
    let validate = format!("validate {}", after_change(&record));
    if !record.ends_with("options none") {
        let revision = server.registry.db.revision();
        let dry = format!("{path}{}dryRun=All", if path.contains('?') { '&' } else { '?' });
        let answer = server.call(method.clone(), &dry, media, &body).await;
        let expected = vec![format!("{admit} dry"), format!("{validate} dry")];
        assert_eq!((answer.code, server.witness.take_records()), (code, expected), "{method} {dry}: {}", answer.body);
        assert_eq!(server.registry.db.revision(), revision, "the dry run {method} {dry} was stored");
    }
    let answer = server.call(method.clone(), &path, media, &body).await;
    server.witness.set_reaction(Reaction::Nothing);
    assert_eq!(answer.warnings, warnings, "{method} {path}");
    assert_eq!(
        (answer.code, server.witness.take_records()),
        (code, vec![admit, validate]),
        "{method} {path}: {}",
        answer.body
    );
    let (at, pointer, value) = seen;
    let found =
        if at.is_empty() { answer.body } else { server.call(Method::GET, &absolute(at), JSON, &Json::Null).await.body };
    assert_eq!(found.at(pointer), Some(&value), "after {method} {path}: {found}");
}

fn admit_and_validate(record: &str) -> Vec<String> {
    vec![format!("admit {record}"), format!("validate {record}")]
}

fn after_change(record: &str) -> String {
    let Some((before, sent)) = record.split_once("-> ").filter(|(_, sent)| !sent.starts_with('-')) else {
        return record.into();
    };
    let (kind, after) = (sent.split('(').next().unwrap_or_default(), sent.split_once(')').unwrap_or_default().1);
    let (.., value) = SAMPLED_FIELDS.iter().find(|(known, ..)| *known == kind).expect("a known kind");
    format!("{before}-> {kind}({value}){after}")
}

fn config_map(name: &str, k: &str) -> Json {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": k}})
}

fn pod(name: &str) -> Json {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}})
}

#[tokio::test]
async fn admission_sees_and_may_change_writes() {
    let server = WitnessedServer::start().await;
    server.make(&format!("{IN}/pods"), pod("p")).await;
    let labels = json!({"a": "b"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod("p")["spec"]});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    server.make("/apis/apps/v1/namespaces/n/deployments", json!({"metadata": {"name": "d"}, "spec": spec})).await;
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l";
    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/n/deployments/d";
    const SCALE: &str = "/apis/apps/v1/namespaces/n/deployments/d/scale?fieldManager=m&force=true";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": "n"}, "spec": {"replicas": 2},
    });
    let is_changed = |at, pointer| (at, pointer, json!("changed"));
    let map = |at| is_changed(at, "/data/k");
    let scaled = || (DEPLOYMENT, "/spec/replicas", json!(7));
    let status = || is_changed("pods/p", "/status/message");
    let update = "Update configmaps/ n/a ConfigMap(changed) -> ConfigMap(2) options manager m";
    let rescale = "Update deployments.apps/scale n/d Scale(7) -> Scale(2) options manager m";
    for (method, path, media, body, record, code, seen) in [
        (
            Method::POST,
            "configmaps?fieldManager=m",
            JSON,
            config_map("a", "1"),
            "Create configmaps/ n/a - -> ConfigMap(1) options manager m",
            201,
            map("configmaps/a"),
        ),
        (Method::PUT, "configmaps/a?fieldManager=m", JSON, config_map("a", "2"), update, 200, map("configmaps/a")),
        (Method::PATCH, "configmaps/a?fieldManager=m", MERGE, config_map("a", "2"), update, 200, map("configmaps/a")),
        (
            Method::PATCH,
            "configmaps/a?fieldManager=m&force=true",
            APPLY,
            config_map("a", "2"),
            update,
            200,
            map("configmaps/a"),
        ),
        (
            Method::PATCH,
            "configmaps/b?fieldManager=m",
            APPLY,
            config_map("b", "1"),
            "Create configmaps/ n/b - -> ConfigMap(1) options manager m",
            201,
            map("configmaps/b"),
        ),
        (
            Method::PUT,
            LEASE,
            JSON,
            lease,
            "Create leases.coordination.k8s.io/ n/l - -> Lease(me) options manager ",
            201,
            is_changed(LEASE, "/spec/holderIdentity"),
        ),
        (
            Method::PATCH,
            "pods/p/status",
            MERGE,
            json!({"status": {"message": "1"}}),
            "Update pods/status n/p Pod() -> Pod(1) options manager ",
            200,
            status(),
        ),
        (
            Method::PUT,
            SCALE,
            JSON,
            scale.clone(),
            "Update deployments.apps/scale n/d Scale(1) -> Scale(2) options manager m",
            200,
            scaled(),
        ),
        (Method::PATCH, SCALE.trim_end_matches("&force=true"), MERGE, scale.clone(), rescale, 200, scaled()),
        (Method::PATCH, SCALE, APPLY, scale, rescale, 200, scaled()),
    ] {
        check(&server, Case { method, path, media, body, record, code, seen }).await;
    }
}

#[tokio::test]
async fn admission_sees_and_may_change_posts() {
    let server = WitnessedServer::start().await;
    for name in ["p", "q"] {
        server.make(&format!("{IN}/pods"), pod(name)).await;
    }
    server.make(&format!("{IN}/serviceaccounts"), json!({"metadata": {"name": "s"}})).await;
    let binding = |name: &str| json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "m"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let review =
        json!({"spec": {"user": "u", "resourceAttributes": {"namespace": "n", "verb": "get", "resource": "pods"}}});
    for (path, body, record, seen) in [
        (
            "pods/p/binding",
            binding("p"),
            "Create pods/binding n/p - -> Binding(m) options manager ",
            ("pods/p", "/spec/nodeName", json!("changed")),
        ),
        (
            "bindings",
            binding("q"),
            "Create bindings/ n/q - -> Binding(m) options manager ",
            ("pods/q", "/spec/nodeName", json!("changed")),
        ),
        (
            "serviceaccounts/s/token",
            json!({}),
            "Create serviceaccounts/token n/s - -> TokenRequest(3600) options manager ",
            ("", "/spec/expirationSeconds", json!(7200)),
        ),
        (
            "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews",
            review,
            "Create localsubjectaccessreviews.authorization.k8s.io/ n/ - -> LocalSubjectAccessReview(u) options manager ",
            ("", "/spec/user", json!("changed")),
        ),
        // An eviction also updates the pod, but this update skips admission.
        (
            "pods/p/eviction",
            eviction,
            "Create pods/eviction n/p - -> Eviction() options manager ",
            ("pods/p", "/metadata/deletionGracePeriodSeconds", json!(7)),
        ),
    ] {
        check(&server, Case { method: Method::POST, path, media: JSON, body, record, code: 201, seen }).await;
    }
}

#[tokio::test]
async fn admission_sees_and_may_change_connect_options() {
    let server = WitnessedServer::start().await;
    server.make(&format!("{IN}/pods"), pod("p")).await;
    for method in [Method::GET, Method::POST] {
        for (path, record, message) in [
            (
                "pods/p/exec?command=ls&container=c",
                "Connect pods/exec n/p - -> PodExecOptions(c) options none",
                "container changed is not valid for pod p",
            ),
            (
                "pods/p/attach?stdin=true",
                "Connect pods/attach n/p - -> PodAttachOptions() options none",
                "container changed is not valid for pod p",
            ),
            (
                "pods/p/portforward?ports=80,443&ports=1",
                "Connect pods/portforward n/p - -> PodPortForwardOptions([80,443,1]) options none",
                "pod p does not have a host assigned",
            ),
        ] {
            let (method, seen) = (method.clone(), ("", "/message", json!(message)));
            check(&server, Case { method, path, media: JSON, body: Json::Null, record, code: 400, seen }).await;
        }
    }
    // The server parses the query before admission, and reads the pod after admission.
    server.witness.set_reaction(Reaction::Refuse("admit"));
    assert_eq!(server.call(Method::POST, &format!("{IN}/pods/none/exec"), JSON, &Json::Null).await.code, 403);
    let no_port = server.call(Method::POST, &format!("{IN}/pods/p/portforward?ports=x"), JSON, &Json::Null).await;
    assert_eq!(no_port.code, 400, "{}", no_port.body);
    server.witness.take_records();
    assert_eq!(server.call(Method::GET, &format!("{IN}/pods/p/log"), JSON, &Json::Null).await.code, 204);
    assert_eq!(server.witness.take_records(), [""; 0], "reading a log is not admitted");
}

#[tokio::test]
async fn admission_sees_each_deleted_object() {
    let server = WitnessedServer::start().await;
    for name in ["a", "b", "c"] {
        server.make(&format!("{IN}/configmaps"), config_map(name, name)).await;
    }
    let one = Case {
        method: Method::DELETE,
        path: "configmaps/a?propagationPolicy=Background",
        media: JSON,
        body: Json::Null,
        record: "Delete configmaps/ n/a ConfigMap(a) -> - options Some(Background)",
        code: 200,
        seen: ("configmaps/a", "/reason", json!("NotFound")),
    };
    check(&server, one).await;
    let all = format!("{IN}/configmaps");
    server.witness.set_reaction(Reaction::Refuse("validate"));
    assert_eq!(server.call(Method::DELETE, &all, JSON, &Json::Null).await.code, 403);
    let of = |k: &str| admit_and_validate(&format!("Delete configmaps/ n/ ConfigMap({k}) -> - by jane options None"));
    assert_eq!(server.witness.take_records(), of("b"), "deletecollection stops at the first rejection");
    server.witness.set_reaction(Reaction::Nothing);
    let gone = server.call(Method::DELETE, &all, JSON, &Json::Null).await;
    assert_eq!((gone.code, gone.body["items"].as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(gone.warnings, ["\"admit looked\"", "\"validate looked\""]);
    assert_eq!(server.witness.take_records(), [of("b"), of("c")].concat());
}

#[tokio::test]
async fn name_is_generated_between_mutation_and_validation() {
    let server = WitnessedServer::start().await;
    let unnamed = json!({"metadata": {"generateName": "g-"}, "data": {"k": "1"}});
    let made = server.call(Method::POST, &format!("{IN}/configmaps"), JSON, &unnamed).await.body;
    let record = |name: &str| format!("Create configmaps/ n/{name} - -> ConfigMap(1) by jane options manager ");
    let name = made.text("/metadata/name");
    assert!(name.len() > "g-".len(), "{made}");
    assert_eq!(server.witness.take_records(), [format!("admit {}", record("")), format!("validate {}", record(name))]);
}

#[tokio::test(start_paused = true)]
async fn admission_sees_writes_of_controllers() {
    let server = WitnessedServer::start().await;
    let settled_records = async || {
        server.background.settle(&server.registry.db).await;
        server.witness.take_records()
    };
    let owner = server.make(&format!("{IN}/configmaps"), config_map("owner", "1")).await;
    let mut dependent = config_map("dependent", "2");
    let uid = &owner["metadata"]["uid"];
    dependent["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    server.make(&format!("{IN}/configmaps"), dependent).await;
    assert_eq!(server.call(Method::DELETE, &format!("{IN}/configmaps/owner"), JSON, &Json::Null).await.code, 200);
    let by = |record: &str, user: &str| {
        admit_and_validate(&record.replace("USER", &format!("system:serviceaccount:kube-system:{user}")))
    };
    let collected = by(
        "Delete configmaps/ n/dependent ConfigMap(2) -> - by USER options Some(Background)",
        "generic-garbage-collector",
    );
    assert_eq!(settled_records().await[2..], collected);

    server.make(&format!("{IN}/configmaps"), config_map("left", "3")).await;
    assert_eq!(server.call(Method::DELETE, "/api/v1/namespaces/n", JSON, &Json::Null).await.code, 200);
    let emptied = [
        admit_and_validate("Delete namespaces/ /n Namespace([\"kubernetes\"]) -> - by jane options None"),
        by("Delete configmaps/ n/ ConfigMap(3) -> - by USER options Some(Background)", "namespace-controller"),
        as_controller("status", r#"["kubernetes"]"#),
        as_controller("finalize", ""),
    ];
    assert_eq!(settled_records().await, emptied.concat());
    assert_eq!(server.call(Method::GET, "/api/v1/namespaces/n", JSON, &Json::Null).await.code, 404);
}

/// Returns the expected records of the namespace controller's write to the subresource `part`. After this write, the
/// namespace has the finalizers `finalizers`.
fn as_controller(part: &str, finalizers: &str) -> Vec<String> {
    let user = "system:serviceaccount:kube-system:namespace-controller";
    let (old, new) = (r#"Namespace(["kubernetes"])"#, format!("Namespace({finalizers})"));
    admit_and_validate(&format!("Update namespaces/{part} /n {old} -> {new} by {user} options manager "))
}

#[tokio::test(start_paused = true)]
async fn namespace_stays_until_admission_permits_its_deletion() {
    let server = WitnessedServer::start().await;
    let path = "/api/v1/namespaces/n";
    assert_eq!(server.call(Method::DELETE, path, JSON, &Json::Null).await.code, 200);
    server.witness.take_records();
    server.witness.set_reaction(Reaction::Refuse("validate"));
    server.background.settle(&server.registry.db).await;
    let kept = server.call(Method::GET, path, JSON, &Json::Null).await;
    assert_eq!((kept.code, kept.body.has("/status/conditions")), (200, false), "{}", kept.body);
    let expected = [as_controller("status", r#"["kubernetes"]"#), as_controller("finalize", "")].concat();
    let records = server.witness.take_records();
    assert_eq!(records[..expected.len()], expected);
    server.witness.set_reaction(Reaction::Nothing);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    server.background.settle(&server.registry.db).await;
    assert_eq!(server.call(Method::GET, path, JSON, &Json::Null).await.code, 404);
}

#[tokio::test]
async fn admission_sees_budget_update_of_an_eviction() {
    let server = WitnessedServer::start().await;
    const BUDGETS: &str = "/apis/policy/v1/namespaces/n/poddisruptionbudgets";
    let mut labelled = pod("p");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    server.make(&format!("{IN}/pods"), labelled).await;
    let spec = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    server.make(BUDGETS, json!({"metadata": {"name": "b"}, "spec": spec})).await;
    let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    for (path, status) in [
        (format!("{IN}/pods/p/status"), ready),
        (format!("{BUDGETS}/b/status"), json!({"disruptionsAllowed": 1, "observedGeneration": 1})),
    ] {
        let written = server.call(Method::PATCH, &path, MERGE, &json!({"status": status})).await;
        assert_eq!(written.code, 200, "{}", written.body);
    }
    server.witness.take_records();
    let eviction = json!({"metadata": {"name": "p"}});
    let evict = async |query: &str| {
        let path = format!("{IN}/pods/p/eviction{query}");
        server.call(Method::POST, &path, JSON, &eviction).await
    };
    let created = |dry: &str| {
        admit_and_validate(&format!("Create pods/eviction n/p - -> Eviction() by jane options manager {dry}"))
    };
    let charged = admit_and_validate(
        "Update poddisruptionbudgets.policy/status n/b PodDisruptionBudget(1) -> PodDisruptionBudget(0) by \
         system:apiserver options manager ",
    );
    let tried = evict("?dryRun=All").await;
    assert_eq!((tried.code, server.witness.take_records()), (201, created(" dry")), "{}", tried.body);
    let evicted = evict("").await;
    assert_eq!(
        (evicted.code, server.witness.take_records()),
        (201, [created(""), charged].concat()),
        "{}",
        evicted.body
    );
    let budget = server.call(Method::GET, &format!("{BUDGETS}/b"), JSON, &Json::Null).await.body;
    assert_eq!(budget.integer("/status/disruptionsAllowed"), Some(0));
    let mut owners =
        budget.list("/metadata/managedFields").map(|owner| (owner.text("/manager"), owner.text("/subresource")));
    assert!(owners.any(|owner| owner == ("kube-apiserver", "status")), "{budget}");
}

#[tokio::test(start_paused = true)]
async fn admission_skips_objects_deleted_with_their_definition() {
    let server = WitnessedServer::start().await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/n/widgets";
    server.make(DEFINITIONS, definition).await;
    server.background.settle(&server.registry.db).await;
    server.make(WIDGETS, json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})).await;
    server.witness.set_reaction(Reaction::Refuse("admit"));
    let gone = server.call(Method::DELETE, &format!("{DEFINITIONS}/widgets.example.com"), JSON, &Json::Null).await;
    assert_eq!(gone.code, 200, "{}", gone.body);
    server.background.settle(&server.registry.db).await;
    assert_eq!(server.witness.take_records(), [""; 0]);
    assert!(server.registry.db.get("widgets.example.com", "n/w").is_none());
}

#[tokio::test]
async fn admission_may_change_the_name_but_not_the_namespace() {
    let server = WitnessedServer::start().await;
    let maps = format!("{IN}/configmaps");
    for (at, text, code, name) in [
        ("/metadata/name", "b", 201, "b"),
        ("/metadata/namespace", "default", 400, ""),
        ("/metadata/name", "B", 422, ""),
    ] {
        server.witness.set_reaction(Reaction::Set(at, text));
        let made = server.call(Method::POST, &maps, JSON, &config_map("a", "1")).await;
        assert_eq!((made.code, made.body.text("/metadata/name")), (code, name), "{}", made.body);
    }
    server.witness.set_reaction(Reaction::Nothing);
    assert_eq!(server.call(Method::GET, &format!("{maps}/b"), JSON, &Json::Null).await.code, 200);
    assert_eq!(server.call(Method::GET, &format!("{maps}/a"), JSON, &Json::Null).await.code, 404);
}

#[tokio::test]
async fn escalation_is_checked_after_mutating_admission() {
    let server = WitnessedServer::start().await;
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings";
    let groups = json!(["rbac.authorization.k8s.io"]);
    let rules = json!([
        {"apiGroups": groups, "resources": ["rolebindings"], "verbs": ["create"]},
        {"apiGroups": groups, "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]},
    ]);
    server.make(ROLES, json!({"metadata": {"name": "binder"}, "rules": rules})).await;
    let binding = |role: &str| {
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
        let bob = json!({"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"});
        json!({"metadata": {"generateName": "b-"}, "roleRef": role, "subjects": [bob]})
    };
    server.make(BINDINGS, binding("binder")).await;
    for (reaction, code) in [(Reaction::Nothing, 201), (Reaction::Set("/roleRef/name", "admin"), 403)] {
        server.witness.set_reaction(reaction);
        let bound = server.call_as(["bob", "people"], Method::POST, BINDINGS, JSON, &binding("view")).await;
        assert_eq!(bound.code, code, "{}", bound.body);
    }
}

#[tokio::test]
async fn invalid_requests_do_not_reach_validating_admission() {
    let server = WitnessedServer::start().await;
    let maps = format!("{IN}/configmaps");
    server.make(&maps, config_map("a", "1")).await;
    let mut stale = config_map("a", "2");
    stale["metadata"]["resourceVersion"] = "1".into();
    for (method, path, body, code, records) in [
        (
            Method::PUT,
            format!("{maps}/a"),
            stale,
            409,
            &["admit Update configmaps/ n/a ConfigMap(1) -> ConfigMap(2)"][..],
        ),
        (Method::POST, maps.clone(), config_map("A", "1"), 422, &["admit Create configmaps/ n/A - -> ConfigMap(1)"]),
        (
            Method::POST,
            format!("{IN}/pods/p/binding"),
            json!({"metadata": {"name": "other"}, "target": {"name": "m"}}),
            400,
            &["admit Create pods/binding n/p - -> Binding(m)"],
        ),
        (Method::DELETE, format!("{maps}/a?resourceVersion=1"), Json::Null, 409, &[]),
        (Method::DELETE, format!("{maps}/none"), Json::Null, 404, &[]),
    ] {
        let answer = server.call(method, &path, JSON, &body).await;
        let records: Vec<_> = records.iter().map(|record| format!("{record} by jane options manager ")).collect();
        assert_eq!((answer.code, server.witness.take_records()), (code, records), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn admission_sees_quota_charges_except_in_dry_runs() {
    let server = WitnessedServer::start().await;
    let (quotas, maps) = (format!("{IN}/resourcequotas"), format!("{IN}/configmaps"));
    let hard = json!({"configmaps": "5"});
    server.make(&quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let status = json!({"status": {"hard": hard, "used": {"configmaps": "0"}}});
    assert_eq!(server.call(Method::PATCH, &format!("{quotas}/q/status"), MERGE, &status).await.code, 200);
    server.witness.take_records();
    let create = "Create configmaps/ n/a - -> ConfigMap(1) by jane options manager ";
    let charge =
        "Update resourcequotas/status n/q ResourceQuota(0) -> ResourceQuota(1) by system:apiserver options manager ";
    let tried = server.call(Method::POST, &format!("{maps}?dryRun=All"), JSON, &config_map("a", "1")).await;
    assert_eq!(
        (tried.code, server.witness.take_records()),
        (201, admit_and_validate(&format!("{create} dry"))),
        "{}",
        tried.body
    );
    let made = server.call(Method::POST, &maps, JSON, &config_map("a", "1")).await;
    let records =
        [&admit_and_validate(create)[..1], &admit_and_validate(charge)[..], &admit_and_validate(create)[1..]].concat();
    // The quota is updated before the `Witness` validates the request. The `Witness` is the last plugin in the chain.
    assert_eq!((made.code, server.witness.take_records()), (201, records), "{}", made.body);
}

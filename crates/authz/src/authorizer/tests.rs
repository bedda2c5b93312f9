//! Tests that compare the results of the index with a full scan of the store.

use std::collections::HashSet;

use pintle_apimachinery::clock::Clock;
use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::object::{key, metadata};
use pintle_apimachinery::request::path::ResourcePath;
use pintle_json::{Json, json};
use pintle_kinds::RBAC_GROUP;
use pintle_meta::GroupResource;
use pintle_storage::{Draft, Expect, History, Interner, Order, UpstreamObject};

use super::*;
use crate::{Attributes, Decision, decide};

fn draft(interner: &Arc<Interner>, _: &str, object: &Json) -> Draft {
    Draft::new(interner, object, Order::Declared, Vec::new())
}

pub(crate) fn db_of(objects: &[(&str, Json)]) -> Db {
    let db = Db::new(1, History::default(), draft, Arc::new(Clock::new(None)));
    objects.iter().for_each(|(plural, object)| put(&db, plural, object.clone()));
    db
}

fn put(db: &Db, plural: &str, object: Json) {
    let resource = format!("{plural}.{RBAC_GROUP}");
    let at = key(metadata::namespace(&object), metadata::name(&object));
    let expect = db.get(&resource, &at).map_or(Expect::Absent, |there| Expect::At(there.revision()));
    db.put(&resource.into(), &at, expect, object).expect("no concurrent writer");
}

fn remove(db: &Db, plural: &str, at: &str) {
    let resource = format!("{plural}.{RBAC_GROUP}");
    if let Some(there) = db.get(&resource, at) {
        db.remove(&resource.into(), at, there.revision()).expect("no concurrent writer");
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.into(), groups: groups.iter().copied().map(Into::into).collect(), ..User::default() }
}

fn role(name: &str, rules: Json) -> Json {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, role: &str, subjects: Json) -> Json {
    json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects})
}

fn rule(verb: &str, resource: &str) -> Json {
    json!({"verbs": [verb], "apiGroups": [""], "resources": [resource]})
}

fn rules_and_error(granted: &Granted) -> (Vec<Json>, Option<String>) {
    (granted.rules().map(|rule| rule.value().clone()).collect(), granted.resolution_error())
}

#[test]
fn role_with_several_bindings_is_granted_by_the_first() {
    let bound = |name: &str| ("clusterrolebindings", binding(name, "r", json!([{"kind": "User", "name": "u"}])));
    let rules = json!([rule("get", "x"), rule("get", "y")]);
    let db = db_of(&[("clusterroles", role("r", rules.clone())), bound("b"), bound("a"), bound("c")]);
    let authorizer = Authorizer::default();
    let granted = authorizer.rules_in(&db).granted(&user("u", &[]), "n");
    assert_eq!((json!(rules_and_error(&granted).0), granted.resolution_error()), (rules, None));
    let path = ResourcePath { resource: "y".into(), ..ResourcePath::default() };
    let get = Attributes::Resource { verb: "get", path: &path, name: "" };
    let decided = decide(authorizer.rules_in(&db), &user("u", &[]), &get);
    let reason = r#"RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to User "u""#;
    assert!(matches!(&decided, Decision::Allowed(found) if found == reason), "{decided:?}");
}

#[test]
fn index_updates_only_the_changed_objects() {
    let all = json!([{"kind": "Group", "name": "g"}]);
    let db = db_of(&[("clusterroles", role("a", json!([]))), ("clusterroles", role("b", json!([])))]);
    let authorizer = Authorizer::default();
    let compiled = |name: &str| authorizer.rules_in(&db).role("", name).expect("an existing role");
    let (a, b) = (compiled("a"), compiled("b"));
    put(&db, "clusterroles", role("b", json!([rule("get", "x")])));
    put(&db, "clusterrolebindings", binding("b", "b", all));
    assert!(Arc::ptr_eq(&a, &compiled("a")) && !Arc::ptr_eq(&b, &compiled("b")));
    assert_eq!(authorizer.rules_in(&db).granted(&user("u", &["g"]), "").rules().count(), 1);
}

#[test]
fn index_is_rebuilt_after_it_lagged() {
    let bound = |role: &str| ("clusterrolebindings", binding(role, role, json!([{"kind": "User", "name": "u"}])));
    let db = db_of(&[bound("early"), bound("often")]);
    let authorizer = Authorizer::default();
    let verbs = || {
        let granted = authorizer.rules_in(&db).granted(&user("u", &[]), "");
        granted.rules().map(|rule| rule.verbs[0].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(verbs(), [""; 0]);
    put(&db, "clusterroles", role("early", json!([rule("get", "x")])));
    for number in 0..20_000 {
        put(&db, "clusterroles", role("often", json!([rule(&number.to_string(), "x")])));
    }
    assert_eq!(verbs(), ["get", "19999"]);
    put(&db, "clusterroles", role("often", json!([rule("last", "x")])));
    assert_eq!(verbs(), ["get", "last"]);
}

#[test]
fn index_sees_objects_of_an_upstream_cluster() {
    let db = db_of(&[("clusterrolebindings", binding("b", "r", json!([{"kind": "User", "name": "u"}])))]);
    db.begin_mirror();
    let authorizer = Authorizer::default();
    let count = || authorizer.rules_in(&db).granted(&user("u", &[]), "").rules().count();
    assert_eq!(count(), 0);
    let resource = format!("clusterroles.{RBAC_GROUP}");
    let shown = UpstreamObject { at: 7, object: Some(db.draft(&resource, &role("r", json!([rule("get", "x")])))) };
    db.show(&resource.into(), "r", shown, false);
    assert_eq!(count(), 1);
}

#[test]
fn rule_covers_exactly_the_named_requests() {
    let allows = |rule: Json, verb: &str, resource: &str, name: &str| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let path = ResourcePath {
            version: "v1".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            ..ResourcePath::default()
        };
        PolicyRule::all_of(&json!([rule]))[0].covers(&Attributes::Resource { verb, path: &path, name })
    };
    let rule = |resources: Json, names: Json| json!({"verbs": ["get"], "apiGroups": [""], "resources": resources, "resourceNames": names});
    assert!(allows(rule(json!(["pods"]), json!([])), "get", "pods", "a"));
    assert!(!allows(rule(json!(["pods"]), json!([])), "list", "pods", ""));
    assert!(!allows(rule(json!(["pods"]), json!([])), "get", "pods/status", "a"));
    assert!(allows(rule(json!(["*/status"]), json!([])), "get", "pods/status", "a"));
    assert!(!allows(rule(json!(["*/status"]), json!([])), "get", "pods", "a"));
    assert!(allows(rule(json!(["*"]), json!([])), "get", "pods/status", "a"));
    assert!(allows(rule(json!(["pods"]), json!(["a"])), "get", "pods", "a"));
    assert!(!allows(rule(json!(["pods"]), json!(["a"])), "get", "pods", ""));
    assert!(!allows(json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]}), "get", "pods", "a"));
    let urls = &PolicyRule::all_of(&json!([{"verbs": ["get"], "nonResourceURLs": ["/a", "/b/*"]}]))[0];
    for (path, expected) in [("/a", true), ("/a/x", false), ("/b", false), ("/b/x/y", true)] {
        assert_eq!(urls.covers(&Attributes::Path { verb: "get", path }), expected, "{path}");
    }
}

/// Computes the rules, the reasons and the error by a full scan of the store.
fn walk(cluster: &dyn Cluster, user: &User, namespace: &str) -> (Vec<Json>, Vec<String>, Option<String>) {
    let (mut rules, mut reasons, mut seen, mut error) = (Vec::new(), Vec::new(), HashSet::new(), None);
    for (plural, of) in [("clusterrolebindings", ""), ("rolebindings", namespace)] {
        if plural == "rolebindings" && namespace.is_empty() {
            continue;
        }
        for binding in cluster.objects(&GroupResource::new(RBAC_GROUP, plural), Some(of).filter(|of| !of.is_empty())) {
            let subjects = binding.list("/subjects");
            let Some(subject) = subjects.clone().find(|subject| matches_user(subject, user, of)) else { continue };
            let (kind, name) = (binding.text("/roleRef/kind"), binding.text("/roleRef/name"));
            let (roles, at) = if kind == "ClusterRole" { ("clusterroles", "") } else { ("roles", of) };
            let Some(role) = cluster.object(&GroupResource::new(RBAC_GROUP, roles), at, name) else {
                error = Some(format!("RBAC: {}.{RBAC_GROUP} {name:?} not found", kind.to_lowercase()));
                continue;
            };
            if !seen.insert((roles, name.to_owned())) {
                continue;
            }
            let (bound, of_subject) = (metadata::name(&binding), subject.text("/name"));
            let bound = match of {
                "" => format!("ClusterRoleBinding {bound:?}"),
                of => format!("RoleBinding {:?}", format!("{bound}/{of}")),
            };
            let shown = match subject.text("/kind") {
                "ServiceAccount" => format!("{of_subject}/{}", subject.text("/namespace")),
                _ => of_subject.to_owned(),
            };
            let reason = format!("RBAC: allowed by {bound} of {kind} {name:?} to {} {shown:?}", subject.text("/kind"));
            for rule in role.list("/rules") {
                rules.push(rule.clone());
                reasons.push(reason.clone());
            }
        }
    }
    (rules, reasons, error)
}

fn matches_user(subject: &Json, user: &User, namespace: &str) -> bool {
    let (name, of) = (subject.text("/name"), subject.text("/namespace"));
    let of = if of.is_empty() { namespace } else { of };
    match subject.text("/kind") {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        "ServiceAccount" => !of.is_empty() && user.name == format!("system:serviceaccount:{of}:{name}"),
        _ => false,
    }
}

fn change(db: &Db, random: &mut fastrand::Rng) {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let namespace = random.choice(["", "m", "n"]).expect("some");
    let name = random.choice(NAMES).expect("some");
    let (is_role, is_removed) = (random.bool(), random.u8(..4) == 0);
    let plural = match (is_role, namespace) {
        (true, "") => "clusterroles",
        (true, _) => "roles",
        (false, "") => "clusterrolebindings",
        (false, _) => "rolebindings",
    };
    if is_removed {
        return remove(db, plural, &key(namespace, name));
    }
    let mut object = json!({"metadata": {"name": name, "namespace": namespace}});
    if is_role {
        let rules = (0..random.usize(..3))
            .map(|_| rule(random.choice(["get", "list"]).expect("some"), random.choice(NAMES).expect("some")));
        object["rules"] = rules.collect();
    } else {
        let kind = random.choice(["ClusterRole", "Role", "Other"]).expect("some");
        object["roleRef"] = json!({"kind": kind, "name": random.choice(NAMES)});
        let subject = |_| {
            let kind = random.choice(["User", "Group", "ServiceAccount", "Other"]).expect("some");
            let of = random.choice([Json::Null, json!(""), json!("m"), json!("n")]);
            json!({"kind": kind, "name": random.choice(["a", "b", "system:serviceaccount:n:a"]), "namespace": of})
        };
        object["subjects"] = (0..4).map(subject).collect();
    }
    put(db, plural, object);
}

#[test]
fn index_equals_a_full_scan() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let users = [
        user("a", &["a", "a"]),
        user("b", &["b", "a"]),
        user("c", &[]),
        user("system:serviceaccount:n:a", &["b"]),
        user("system:serviceaccount::a", &["system:serviceaccount:n:a"]),
    ];
    for _ in 0..20 {
        let (db, authorizer) = (db_of(&[]), Authorizer::default());
        for step in 0..200 {
            change(&db, &mut random);
            if random.bool() {
                continue;
            }
            for (user, namespace) in
                users.iter().flat_map(|user| ["", "m", "n", "o"].map(|namespace| (user, namespace)))
            {
                let (rules, reasons, error) = walk(&db, user, namespace);
                let granted = authorizer.rules_in(&db).granted(user, namespace);
                let why = format!("seed {seed}, step {step}: {user:?} in {namespace:?}");
                assert_eq!(rules_and_error(&granted), (rules.clone(), error.clone()), "{why}");
                for resource in ["a", "d"] {
                    let path = ResourcePath {
                        resource: resource.into(),
                        namespace: namespace.into(),
                        ..ResourcePath::default()
                    };
                    let get = Attributes::Resource { verb: "get", path: &path, name: "" };
                    let first = rules.iter().position(|held| *held == rule("get", resource));
                    let expected = match first {
                        Some(at) => Decision::Allowed(reasons[at].clone()),
                        None => Decision::NoOpinion(error.clone()),
                    };
                    let decided = decide(authorizer.rules_in(&db), user, &get);
                    assert_eq!(format!("{decided:?}"), format!("{expected:?}"), "{why}: {resource}");
                }
            }
        }
    }
}

//! Classifies requests by flow schema and priority level.
//!
//! The server does not queue or limit requests. The flow schema and the priority level only determine response headers,
//! as in kube-apiserver.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::user::{MASTERS, User};
use pintle_json::Json;
use pintle_storage::{Db, Stored, Tree};

use super::authorizer::has;
use super::compiled::{Compiled, Index};
use super::covers_url;
use crate::attributes::Attributes;

const SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
const LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";

/// The UIDs of a request's flow schema and priority level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub schema: Arc<str>,
    pub level: Arc<str>,
}

/// An index of the flow schemas in a store.
#[derive(Debug, Default)]
pub struct Flows(Compiled<FlowIndex>);

impl Flows {
    /// Returns a request's flow schema and priority level. The matching flow schema with the lowest
    /// `matchingPrecedence` applies. Among matching schemas with the same precedence, the first schema by name applies.
    /// All calls must pass the same `db`.
    pub fn classify(&self, db: &Db, user: &User, attributes: &Attributes<'_>) -> Option<Flow> {
        // Evaluate the built-in schema `exempt` before all other schemas.
        if user.is_in(MASTERS)
            && let Some(exempt) = self.0.query(db, |index| Some(index.flow(index.exempt()?)))
        {
            return exempt;
        }
        let schemas = self.0.query(db, |index| index.schemas.clone());
        let (_, schema) = schemas.iter().find(|(_, schema)| schema.matches(user, attributes))?;
        self.0.query(db, |index| index.flow(schema))
    }
}

#[derive(Debug, Default)]
struct FlowIndex {
    /// The flow schemas, ordered by precedence and then by name.
    schemas: Tree<Arc<CompiledFlowSchema>>,
    places: HashMap<Box<str>, Box<str>>,
    levels: HashMap<Box<str>, Arc<str>>,
}

#[derive(Debug)]
struct CompiledFlowSchema {
    uid: Arc<str>,
    level: Box<str>,
    rules: Box<[FlowRule]>,
}

/// A rule of a flow schema. A request matches the rule if it comes from one of the subjects and matches a resource
/// rule or a path rule.
#[derive(Debug)]
struct FlowRule {
    subjects: Box<[FlowSubject]>,
    resources: Box<[ResourceRule]>,
    paths: Box<[PathRule]>,
}

#[derive(Debug)]
enum FlowSubject {
    Everyone,
    User(Box<str>),
    Group(Box<str>),
    /// All service accounts of a namespace, whose user names begin with this string.
    Accounts(Box<str>),
    NoOne,
}

#[derive(Debug)]
struct ResourceRule {
    verbs: FlowNames,
    groups: FlowNames,
    resources: FlowNames,
    namespaces: FlowNames,
    cluster: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: FlowNames,
    urls: FlowNames,
}

type FlowNames = Box<[Box<str>]>;

impl Index for FlowIndex {
    const RESOURCES: &'static [&'static str] = &[SCHEMAS, LEVELS];

    fn put(&mut self, resource: &str, key: &str, stored: &Stored) {
        if resource == LEVELS {
            self.levels.insert(key.into(), stored.uid().as_ref().into());
            return;
        }
        self.remove(resource, key);
        let schema = stored.decode();
        let precedence = schema.integer("/spec/matchingPrecedence").unwrap_or_default();
        let place = format!("{precedence:010}/{key}");
        self.schemas.insert(&place, Arc::new(CompiledFlowSchema::new(&schema)));
        self.places.insert(key.into(), place.into());
    }

    fn remove(&mut self, resource: &str, key: &str) {
        if resource == LEVELS {
            self.levels.remove(key);
        } else if let Some(place) = self.places.remove(key) {
            self.schemas.remove(&place);
        }
    }
}

impl FlowIndex {
    fn exempt(&self) -> Option<&Arc<CompiledFlowSchema>> {
        self.schemas.get(self.places.get("exempt")?)
    }

    /// Returns the UIDs of a flow schema and its priority level, or `None` if the priority level does not exist.
    fn flow(&self, schema: &CompiledFlowSchema) -> Option<Flow> {
        let level = self.levels.get(&schema.level)?;
        Some(Flow { schema: schema.uid.clone(), level: level.clone() })
    }
}

impl CompiledFlowSchema {
    fn new(schema: &Json) -> Self {
        Self {
            uid: metadata::uid(schema).into(),
            level: schema.text("/spec/priorityLevelConfiguration/name").into(),
            rules: schema.list("/spec/rules").map(FlowRule::new).collect(),
        }
    }

    fn matches(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(user, attributes))
    }
}

impl FlowRule {
    fn new(rule: &Json) -> Self {
        Self {
            subjects: rule.list("/subjects").map(FlowSubject::new).collect(),
            resources: rule.list("/resourceRules").map(ResourceRule::new).collect(),
            paths: rule.list("/nonResourceRules").map(PathRule::new).collect(),
        }
    }

    fn matches(&self, user: &User, attributes: &Attributes<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.is(user))
            && match attributes {
                Attributes::Path { verb, path } => self.paths.iter().any(|rule| rule.covers(verb, path)),
                Attributes::Resource { verb, path, .. } => {
                    let resource = path.full_resource();
                    self.resources.iter().any(|rule| {
                        let scope = match path.namespace.as_str() {
                            "" => rule.cluster,
                            namespace => has(&rule.namespaces, namespace),
                        };
                        scope
                            && has(&rule.verbs, verb)
                            && has(&rule.groups, &path.group)
                            && has(&rule.resources, &resource)
                    })
                }
            }
    }
}

impl FlowSubject {
    fn new(subject: &Json) -> Self {
        match (subject.text("/kind"), subject.text("/user/name"), subject.text("/group/name")) {
            ("User", "*", _) | ("Group", _, "*") => Self::Everyone,
            ("User", name, _) => Self::User(name.into()),
            ("Group", _, name) => Self::Group(name.into()),
            ("ServiceAccount", ..) => {
                let account_text = |field: &str| subject.text(&format!("/serviceAccount/{field}")).to_owned();
                let prefix = format!("system:serviceaccount:{}:", account_text("namespace"));
                match account_text("name").as_str() {
                    "*" => Self::Accounts(prefix.into()),
                    name => Self::User(format!("{prefix}{name}").into()),
                }
            }
            _ => Self::NoOne,
        }
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Self::Everyone => true,
            Self::User(name) => **name == *user.name,
            Self::Group(name) => user.is_in(name),
            Self::Accounts(prefix) => user.name.starts_with(&**prefix),
            Self::NoOne => false,
        }
    }
}

impl ResourceRule {
    fn new(rule: &Json) -> Self {
        Self {
            verbs: names(rule, "verbs"),
            groups: names(rule, "apiGroups"),
            resources: names(rule, "resources"),
            namespaces: names(rule, "namespaces"),
            cluster: rule["clusterScope"] == true,
        }
    }
}

impl PathRule {
    fn new(rule: &Json) -> Self {
        Self { verbs: names(rule, "verbs"), urls: names(rule, "nonResourceURLs") }
    }

    fn covers(&self, verb: &str, path: &str) -> bool {
        has(&self.verbs, verb) && self.urls.iter().any(|url| covers_url(url, path))
    }
}

fn names(rule: &Json, field: &str) -> FlowNames {
    rule[field].list("").filter_map(Json::as_str).map(Box::from).collect()
}

#[cfg(test)]
mod tests {
    use pintle_apimachinery::clock::Clock;
    use pintle_apimachinery::request::path::ResourcePath;
    use pintle_json::json;
    use pintle_storage::{Draft, Expect, History, Order};

    use super::*;

    fn db() -> Db {
        let draft = |interner: &_, _: &str, object: &Json| Draft::new(interner, object, Order::Declared, Vec::new());
        Db::new(1, History::default(), draft, Arc::new(Clock::new(None)))
    }

    fn put(db: &Db, resource: &str, name: &str, spec: Json) {
        let expect = db.get(resource, name).map_or(Expect::Absent, |there| Expect::At(there.revision()));
        let object = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
        db.put(&resource.into(), name, expect, object).expect("no concurrent writer");
    }

    fn schema(precedence: i64, subject: Json) -> Json {
        let of_resources = json!({
            "verbs": ["get"], "apiGroups": ["*"], "resources": ["pods", "pods/log"], "namespaces": ["n"],
        });
        let of_paths = json!({"verbs": ["*"], "nonResourceURLs": ["/healthz", "/a/*"]});
        let rule = json!({"subjects": [subject], "resourceRules": [of_resources], "nonResourceRules": [of_paths]});
        json!({"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": "l"}, "rules": [rule]})
    }

    fn user(name: &str, groups: &[&str]) -> User {
        User { name: name.into(), groups: groups.iter().copied().map(Into::into).collect(), ..User::default() }
    }

    const HEALTH: Attributes<'_> = Attributes::Path { verb: "get", path: "/healthz" };

    fn flow_of(flows: &Flows, db: &Db, user: &User, attributes: &Attributes<'_>) -> Option<String> {
        flows.classify(db, user, attributes).map(|flow| format!("{} {}", flow.schema, flow.level))
    }

    #[test]
    fn first_schema_by_precedence_and_name_wins() {
        let (db, flows) = (db(), Flows::default());
        let bob = user("bob", &["g"]);
        let now = |expected: Option<&str>| assert_eq!(flow_of(&flows, &db, &bob, &HEALTH).as_deref(), expected);
        now(None);
        let all = json!({"kind": "Group", "group": {"name": "*"}});
        put(&db, SCHEMAS, "b", schema(900, all.clone()));
        now(None);
        put(&db, LEVELS, "l", json!({}));
        now(Some("b l"));
        put(&db, SCHEMAS, "a", schema(900, json!({"kind": "User", "user": {"name": "bob"}})));
        now(Some("a l"));
        put(&db, SCHEMAS, "z", schema(20, json!({"kind": "Group", "group": {"name": "g"}})));
        now(Some("z l"));
        put(&db, SCHEMAS, "z", schema(1000, all.clone()));
        now(Some("a l"));
        let gone = db.get(SCHEMAS, "a").expect("an existing schema").revision();
        db.remove(&SCHEMAS.into(), "a", gone).expect("no concurrent writer");
        now(Some("b l"));
        put(&db, SCHEMAS, "exempt", schema(5000, json!({"kind": "User", "user": {"name": "nobody"}})));
        now(Some("b l"));
        assert_eq!(flow_of(&flows, &db, &User::admin(), &HEALTH).as_deref(), Some("exempt l"));
        let gone = db.get(LEVELS, "l").expect("an existing level").revision();
        db.remove(&LEVELS.into(), "l", gone).expect("no concurrent writer");
        now(None);
    }

    #[test]
    fn schema_matches_subjects_and_requests_of_its_rules() {
        let account =
            |name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": name}});
        let pods = |namespace: &str, subresource: &str| ResourcePath {
            resource: "pods".into(),
            namespace: namespace.into(),
            subresource: subresource.into(),
            ..ResourcePath::default()
        };
        for (subject, name, expected) in [
            (account("a"), "system:serviceaccount:n:a", true),
            (account("a"), "system:serviceaccount:n:b", false),
            (account("*"), "system:serviceaccount:n:b", true),
            (account("*"), "system:serviceaccount:nn:b", false),
            (json!({"kind": "User", "user": {"name": "*"}}), "anybody", true),
            (json!({"kind": "Other", "user": {"name": "*"}}), "anybody", false),
        ] {
            let schema = CompiledFlowSchema::new(&json!({"spec": schema(1, subject.clone())}));
            assert_eq!(schema.matches(&user(name, &[]), &HEALTH), expected, "{subject} {name}");
        }
        let schema = CompiledFlowSchema::new(&json!({"spec": schema(1, account("*"))}));
        let account = user("system:serviceaccount:n:a", &[]);
        for (verb, path, expected) in [
            ("get", pods("n", ""), true),
            ("get", pods("n", "log"), true),
            ("get", pods("n", "exec"), false),
            ("get", pods("m", ""), false),
            ("get", pods("", ""), false),
            ("list", pods("n", ""), false),
        ] {
            let resource = Attributes::Resource { verb, path: &path, name: "" };
            assert_eq!(schema.matches(&account, &resource), expected, "{verb} {path:?}");
        }
        for (path, expected) in [("/healthz", true), ("/healthz/a", false), ("/a/b", true), ("/a", false)] {
            assert_eq!(schema.matches(&account, &Attributes::Path { verb: "put", path }), expected, "{path}");
        }
    }

    #[test]
    fn change_recompiles_only_the_changed_schema() {
        let (db, flows) = (db(), Flows::default());
        let subject = json!({"kind": "User", "user": {"name": "bob"}});
        for at in 0..100 {
            put(&db, SCHEMAS, &at.to_string(), schema(at, subject.clone()));
        }
        let schemas = || flows.0.query(&db, |index| index.schemas.clone());
        let before = schemas();
        assert_eq!(schemas().unshared_with(&before), 0, "a query without changes compiles nothing");
        put(&db, SCHEMAS, "7", schema(7, json!({"kind": "User", "user": {"name": "alice"}})));
        let after = schemas();
        let is_new = |(place, schema): &(&str, &Arc<CompiledFlowSchema>)| {
            !before.get(place).is_some_and(|old| Arc::ptr_eq(old, schema))
        };
        assert_eq!(after.iter().filter(is_new).map(|(place, _)| place).collect::<Vec<_>>(), ["0000000007/7"]);
    }
}

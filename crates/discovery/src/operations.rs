//! Describes the paths and operations of a kind in an OpenAPI 3 document.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::Verb::{self, Create, Delete, DeleteCollection, Get, List, Patch, Update};
use pintle_json::{Json, Map, json};
use pintle_kinds::{Kind, Routing};
use pintle_meta::GroupVersion;
use pintle_schema::openapi::reference;

use super::schema_names::{DELETE_OPTIONS_SCHEMA, PATCH_SCHEMA, RESOURCES_SCHEMA, STATUS_SCHEMA};
use super::schema_names::{built_in_schema_name, gvk, list_schema_name, schema_name};

const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

struct PathItem<'a> {
    kind: &'a Kind,
    path: String,
    subresource: Subresource,
    verbs: Vec<Verb>,
    schema: String,
    gvk: Json,
}

pub(super) fn paths(kind: &Kind) -> Vec<(String, Json)> {
    let root = kind.group_version().path();
    let everywhere = format!("{root}/{}", kind.plural);
    let collection = if kind.is_namespaced() {
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        everywhere.clone()
    };
    let object = format!("{collection}/{{name}}");
    let item = |path: String, verbs: &[Verb]| PathItem {
        kind,
        path,
        subresource: Subresource::None,
        verbs: verbs.iter().copied().filter(|verb| kind.supports(*verb)).collect(),
        schema: schema_name(kind),
        gvk: gvk(&kind.gvk()),
    };
    let mut places = Vec::new();
    if kind.is_namespaced() {
        places.push(item(everywhere, &[List]));
    }
    places.push(item(collection, &[List, Create, DeleteCollection]));
    places.push(item(object.clone(), &[Get, Update, Delete, Patch]));
    places.extend(kind.subresources.iter().map(|subresource| {
        let whole = PathItem {
            subresource: subresource.subresource,
            verbs: subresource.verbs.clone(),
            ..item(format!("{object}/{}", subresource.subresource.name()), &[])
        };
        match &subresource.kind {
            None => whole,
            Some(other) => PathItem {
                schema: built_in_schema_name(other),
                // As in kube-apiserver, all paths of a custom resource, including subresources, contain the kind of
                // the custom resource.
                gvk: if is_catch_all(kind) { whole.gvk } else { gvk(other) },
                ..whole
            },
        }
    }));
    let served = places.into_iter().filter(|item| !item.verbs.is_empty());
    served.map(|item| (item.path.clone(), item.operations())).collect()
}

pub(super) fn resources(version: &GroupVersion) -> (String, Json) {
    let get = json!({
        "tags": [tag(version)],
        "description": "get available resources",
        "operationId": format!("get{}APIResources", prefix(version)),
        "responses": {
            "200": {"description": "OK", "content": contents(&media_types(false, None), RESOURCES_SCHEMA)},
            "401": {"description": "Unauthorized"},
        },
    });
    (format!("{}/", version.path()), json!({"get": get}))
}

impl PathItem<'_> {
    fn operations(&self) -> Json {
        let mut parameters = vec![parameter("pretty", "query", "string")];
        for (name, what) in [
            ("name", format!("name of the {}", self.gvk.text("/kind"))),
            ("namespace", "object name and auth scope, such as for teams and projects".to_owned()),
        ] {
            if self.path.contains(&format!("{{{name}}}")) {
                let mut parameter = parameter(name, "path", "string");
                parameter.set("description", what);
                parameter.set("required", true);
                parameters.push(parameter);
            }
        }
        let mut operations: Map =
            self.verbs.iter().map(|verb| (method(*verb).to_owned(), self.operation(*verb))).collect();
        // If a path has only one operation, declare the operation's parameters on the path.
        if let [verb] = self.verbs[..] {
            parameters.extend(self.queries(verb));
            if let Some(Json::Object(operation)) = operations.get_mut(method(verb)) {
                operation.remove("parameters");
            }
        }
        parameters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        operations.insert("parameters", parameters.into());
        operations.into()
    }

    fn operation(&self, verb: Verb) -> Json {
        let catch_all = is_catch_all(self.kind);
        let response = match verb {
            List | Verb::Watch => list_schema_name(self.kind),
            Delete if self.kind.flags.returns_deleted_object => self.schema.clone(),
            Delete | DeleteCollection => STATUS_SCHEMA.to_owned(),
            _ => self.schema.clone(),
        };
        let further: &[(&str, &str)] = match verb {
            Create => &[("201", "Created"), ("202", "Accepted")],
            Update => &[("201", "Created")],
            Patch if !catch_all => &[("201", "Created")],
            Delete => &[("202", "Accepted")],
            _ => &[],
        };
        let content = contents(&media_types(catch_all, Some(verb)), &response);
        let codes = [("200", "OK")].iter().chain(further);
        let mut responses: Map = codes
            .map(|(code, why)| ((*code).to_owned(), json!({"description": why, "content": content.clone()})))
            .collect();
        responses.insert("401", json!({"description": "Unauthorized"}));
        let mut operation = json!({
            "tags": [tag(&self.kind.group_version())],
            "description": self.description(verb),
            "operationId": self.id(verb),
            "responses": responses,
            "x-kubernetes-action": action(verb),
            "x-kubernetes-group-version-kind": self.gvk,
        });
        // Omit empty lists, because Go also omits them and Go's OpenAPI readers do not expect them.
        let queries = self.queries(verb);
        if !queries.is_empty() {
            operation.set("parameters", queries);
        }
        if let Some(body) = self.body(verb) {
            operation.set("requestBody", body);
        }
        operation
    }

    fn body(&self, verb: Verb) -> Option<Json> {
        let catch_all = is_catch_all(self.kind);
        let any = if catch_all { media_types(catch_all, None) } else { vec!["*/*"] };
        match verb {
            Create | Update => Some(json!({"content": contents(&any, &self.schema), "required": true})),
            Patch => {
                let takes = |content: &&&str| self.kind.takes_strategic_patches() || !content.contains("strategic");
                let types: Vec<_> = PATCHES.iter().filter(takes).copied().collect();
                Some(json!({"content": contents(&types, PATCH_SCHEMA), "required": true}))
            }
            DeleteCollection if catch_all => None,
            Delete | DeleteCollection => Some(json!({"content": contents(&any, DELETE_OPTIONS_SCHEMA)})),
            Get | List | Verb::Watch => None,
        }
    }

    /// Returns the operation ID, which is unique in the server.
    fn id(&self, verb: Verb) -> String {
        // For `deletecollection`, the operation ID begins with `delete` and contains `Collection` after the group and
        // version.
        let (verb, rest) = if verb == DeleteCollection { ("delete", "Collection") } else { (word(verb), "") };
        let scope = if self.path.contains("{namespace}") { "Namespaced" } else { "" };
        let subresource = camel(self.subresource.name(), true);
        let all = if self.kind.is_namespaced() && scope.is_empty() { "ForAllNamespaces" } else { "" };
        let kind = camel(&self.kind.kind, scope.is_empty());
        format!("{verb}{}{rest}{scope}{kind}{subresource}{all}", prefix(&self.kind.group_version()))
    }

    fn description(&self, verb: Verb) -> String {
        let kind = &self.kind.kind;
        let subresource = if self.subresource == Subresource::None {
            String::new()
        } else {
            format!("{} of ", self.subresource.name())
        };
        match verb {
            List | Verb::Watch if is_catch_all(self.kind) => format!("list objects of kind {kind}"),
            List | Verb::Watch => format!("list or watch objects of kind {kind}"),
            Create | Delete => format!("{} {subresource}{}{kind}", word(verb), article(kind)),
            DeleteCollection => format!("delete collection of {kind}"),
            Get | Update => format!("{} {subresource}the specified {kind}", word(verb)),
            Patch => format!("partially update {subresource}the specified {kind}"),
        }
    }

    fn queries(&self, verb: Verb) -> Vec<Json> {
        let catch_all = is_catch_all(self.kind);
        let mut names: Vec<(&str, &str)> = match verb {
            Get if catch_all => vec![("resourceVersion", "string")],
            Get => Vec::new(),
            List | Verb::Watch => LIST_OPTIONS.into(),
            DeleteCollection if catch_all => LIST_OPTIONS.into(),
            DeleteCollection => {
                let watches = |name: &str| matches!(name, "allowWatchBookmarks" | "watch");
                LIST_OPTIONS.iter().filter(|(name, _)| !watches(name)).chain(DELETE_OPTIONS).copied().collect()
            }
            Create | Update => WRITE_OPTIONS.into(),
            Patch => WRITE_OPTIONS.iter().chain(&[("force", "boolean")]).copied().collect(),
            Delete => DELETE_OPTIONS.into(),
        };
        names.sort_unstable();
        names.into_iter().map(|(name, of_type)| parameter(name, "query", of_type)).collect()
    }
}

const LIST_OPTIONS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE_OPTIONS: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const DELETE_OPTIONS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

fn method(verb: Verb) -> &'static str {
    match verb {
        Get | List | Verb::Watch => "get",
        Create => "post",
        Update => "put",
        Patch => "patch",
        Delete | DeleteCollection => "delete",
    }
}

fn action(verb: Verb) -> &'static str {
    match verb {
        Create | Update => method(verb),
        _ => verb.name(),
    }
}

fn word(verb: Verb) -> &'static str {
    match verb {
        Get => "read",
        Update => "replace",
        _ => verb.name(),
    }
}

fn parameter(name: &str, location: &str, of_type: &str) -> Json {
    json!({"name": name, "in": location, "schema": {"type": of_type, "uniqueItems": true}})
}

/// Returns `true` if a single route of kube-apiserver serves all requests for this kind. Only custom resources have a
/// single route for all requests.
fn is_catch_all(kind: &Kind) -> bool {
    kind.strategy.routing() == Routing::CatchAll
}

/// Returns the media types of the objects that an operation sends or receives. `catch_all` is the result of
/// [`is_catch_all`] for the kind of the operation.
fn media_types(catch_all: bool, verb: Option<Verb>) -> Vec<&'static str> {
    let mut forms = vec!["application/json"];
    let watched = !catch_all && verb == Some(List);
    if watched {
        forms.push("application/json;stream=watch");
    }
    if !catch_all {
        forms.push("application/vnd.kubernetes.protobuf");
    }
    if watched {
        forms.push("application/vnd.kubernetes.protobuf;stream=watch");
    }
    forms.push("application/yaml");
    forms
}

fn contents(types: &[&str], schema: &str) -> Json {
    let schema = json!({"schema": reference(schema)});
    types.iter().map(|content| ((*content).to_owned(), schema.clone())).collect::<Map>().into()
}

fn tag(version: &GroupVersion) -> String {
    format!("{}_{}", camel(group(version), false), camel(&version.version, false))
}

/// Returns the group and version in the form that follows the verb in operation IDs.
fn prefix(version: &GroupVersion) -> String {
    format!("{}{}", camel(group(version), true), camel(&version.version, true))
}

fn group(version: &GroupVersion) -> &str {
    if version.group.is_empty() { "core" } else { &version.group }
}

fn article(noun: &str) -> &'static str {
    match noun.chars().next() {
        _ if noun.ends_with('s') && !noun.ends_with("ss") => "",
        Some(first) if "aeiou".contains(first.to_ascii_lowercase()) => "an ",
        _ => "a ",
    }
}

/// Removes the characters that an identifier must not contain, and makes the letter after each of them upper-case.
fn camel(text: &str, mut large: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.trim_end_matches(".k8s.io").char_indices() {
        if c.is_alphabetic() || c == '_' || (at > 0 && c.is_numeric()) {
            if large {
                out.extend(c.to_uppercase())
            } else {
                out.push(c)
            }
            large = false;
        } else {
            large = true;
        }
    }
    out
}

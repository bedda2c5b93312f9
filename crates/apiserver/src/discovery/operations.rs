//! What can be asked of a custom resource, path by path, as an OpenAPI 3 document has it.

use pintle_json::{Json, Map, json};

use super::openapi::{APPLY, PATCH_SCHEMA, gvk, patch_types, schema_name, schema_of};
use crate::kinds::Kind;
use crate::request::Part;
use crate::request::Verb::{self, Create, Delete, DeleteCollection, Get, List, Patch, Update};

pub(super) const STATUS_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const DELETE_OPTIONS_SCHEMA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// One path, and what can be asked there.
struct Place<'a> {
    kind: &'a Kind,
    path: String,
    part: Part,
    verbs: &'static [Verb],
    /// What is read and written there: the name of its schema.
    schema: String,
}

/// The paths of a kind with their operations.
pub(super) fn paths(kind: &Kind) -> Vec<(String, Json)> {
    let root = kind.group_version().path();
    let everywhere = format!("{root}/{}", kind.plural);
    let collection = match kind.namespaced() {
        true => format!("{root}/namespaces/{{namespace}}/{}", kind.plural),
        false => everywhere.clone(),
    };
    let object = format!("{collection}/{{name}}");
    let schema = schema_name(kind);
    let place = |path: String, verbs| Place { kind, path, part: Part::Object, verbs, schema: schema.clone() };
    let mut places = Vec::new();
    if kind.namespaced() {
        places.push(place(everywhere, &[List]));
    }
    places.push(place(collection, &[List, Create, DeleteCollection]));
    places.push(place(object.clone(), &[Get, Update, Delete, Patch]));
    places.extend(kind.subresources.iter().map(|subresource| Place {
        part: subresource.part,
        schema: subresource.kind.as_ref().map_or_else(|| schema.clone(), schema_of),
        ..place(format!("{object}/{}", subresource.part.name()), &[Get, Update, Patch])
    }));
    places.into_iter().map(|place| (place.path.clone(), place.operations())).collect()
}

impl Place<'_> {
    fn operations(&self) -> Json {
        let mut parameters = vec![parameter("pretty", "query", "string")];
        for (name, what) in [
            ("name", format!("name of the {}", self.kind.kind)),
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
        // What all operations of a path have in common stands beside them.
        if let [verb] = self.verbs {
            parameters.extend(queries(*verb));
            if let Some(Json::Object(operation)) = operations.get_mut(method(*verb)) {
                operation.remove("parameters");
            }
        }
        parameters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        operations.insert("parameters", parameters.into());
        operations.into()
    }

    fn operation(&self, verb: Verb) -> Json {
        let answer = match verb {
            List => schema_name_of_list(self.kind),
            Delete | DeleteCollection => STATUS_SCHEMA.to_owned(),
            _ => self.schema.clone(),
        };
        let further: &[(&str, &str)] = match verb {
            Create => &[("201", "Created"), ("202", "Accepted")],
            Update => &[("201", "Created")],
            Delete => &[("202", "Accepted")],
            _ => &[],
        };
        let codes = [("200", "OK")].iter().chain(further);
        let mut responses: Map = codes
            .map(|(code, why)| ((*code).to_owned(), json!({"description": why, "content": documents(&answer)})))
            .collect();
        responses.insert("401", json!({"description": "Unauthorized"}));
        let (group, version) = (&self.kind.group, &self.kind.version);
        let mut operation = json!({
            "tags": [format!("{}_{}", camel(group, false), camel(version, false))],
            "description": self.description(verb),
            "operationId": self.id(verb),
            "parameters": queries(verb),
            "responses": responses,
            "x-kubernetes-action": action(verb),
            "x-kubernetes-group-version-kind": gvk(self.kind),
        });
        let body = match verb {
            Create | Update => Some(json!({"content": documents(&self.schema), "required": true})),
            Patch => {
                let types = patch_types(self.kind).chain([APPLY]);
                Some(json!({"content": contents(types, PATCH_SCHEMA), "required": true}))
            }
            Delete => Some(json!({"content": documents(DELETE_OPTIONS_SCHEMA)})),
            _ => None,
        };
        if let Some(body) = body {
            operation.set("requestBody", body);
        }
        operation
    }

    /// A name that no other operation of the server has.
    fn id(&self, verb: Verb) -> String {
        let Kind { group, version, kind, .. } = self.kind;
        // What counts as the verb of the collection is the first word of it.
        let (verb, rest) = if verb == DeleteCollection { ("delete", "Collection") } else { (word(verb), "") };
        let scope = if self.path.contains("{namespace}") { "Namespaced" } else { "" };
        let part = camel(self.part.name(), true);
        let all = if self.kind.namespaced() && scope.is_empty() { "ForAllNamespaces" } else { "" };
        let (group, version, kind) = (camel(group, true), camel(version, true), camel(kind, scope.is_empty()));
        format!("{verb}{group}{version}{rest}{scope}{kind}{part}{all}")
    }

    fn description(&self, verb: Verb) -> String {
        let kind = &self.kind.kind;
        let part = if self.part == Part::Object { String::new() } else { format!("{} of ", self.part.name()) };
        match verb {
            List | Verb::Watch => format!("list objects of kind {kind}"),
            Create | Delete => format!("{} {}{kind}", word(verb), article(kind)),
            DeleteCollection => format!("delete collection of {kind}"),
            Get | Update => format!("{} {part}the specified {kind}", word(verb)),
            Patch => format!("partially update {part}the specified {kind}"),
        }
    }
}

/// The name of the schema of a kind's lists.
pub(super) fn schema_name_of_list(kind: &Kind) -> String {
    let name = schema_name(kind);
    let package = name.strip_suffix(kind.kind.as_str()).unwrap_or(&name);
    format!("{package}{}", kind.list_kind)
}

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

/// What can be said in the query.
fn queries(verb: Verb) -> Vec<Json> {
    let names: &[(&str, &str)] = match verb {
        Get => &[("resourceVersion", "string")],
        List | DeleteCollection | Verb::Watch => &[
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
        ],
        Create | Update => &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")],
        Patch => {
            &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")]
        }
        Delete => &[
            ("dryRun", "string"),
            ("gracePeriodSeconds", "integer"),
            ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
            ("orphanDependents", "boolean"),
            ("propagationPolicy", "string"),
        ],
    };
    names.iter().map(|(name, of_type)| parameter(name, "query", of_type)).collect()
}

fn parameter(name: &str, place: &str, of_type: &str) -> Json {
    json!({"name": name, "in": place, "schema": {"type": of_type, "uniqueItems": true}})
}

/// A body of a schema in each form in which objects come and go.
fn documents(schema: &str) -> Json {
    contents(["application/json", "application/yaml"].into_iter(), schema)
}

fn contents<'a>(types: impl Iterator<Item = &'a str>, schema: &str) -> Json {
    let schema = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
    types.map(|content| (content.to_owned(), schema.clone())).collect::<Map>().into()
}

fn article(noun: &str) -> &'static str {
    match noun.chars().next() {
        _ if noun.ends_with('s') && !noun.ends_with("ss") => "",
        Some(first) if "aeiou".contains(first.to_ascii_lowercase()) => "an ",
        _ => "a ",
    }
}

/// A text without what no name can have in it: what comes after that is written large.
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

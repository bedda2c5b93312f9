//! Reviews: questions about who one is and what one may do. Nothing is stored; the answer is in the status.

use pintle_json::{Json, json};

use super::Registry;
use super::pipeline::Write;
use super::served::Served;
use crate::auth::{self, Attributes, Decision};
use crate::failure::{Failure, Outcome};
use crate::kinds::Place;
use crate::object::{metadata, metadata_mut, text_at};
use crate::registry::Writer;
use crate::request::options::How;
use crate::request::path::ResourcePath;
use crate::request::user::User;
use crate::validate::{Faults, FieldFault};

impl Registry {
    /// Answers a review that `user` sends.
    pub(crate) fn review(&self, place: &Place, mut object: Json, user: &User, by: &Writer<'_>) -> Outcome<Served> {
        let kind = &place.kind;
        if let Some(object) = object.as_object_mut() {
            object.remove("status");
        }
        let named =
            ["name", "namespace", "generateName"].iter().any(|field| !metadata::text(&object, field).is_empty());
        match kind.kind.as_str() {
            "SelfSubjectReview" => {
                let now = self.clock.now_text();
                object = json!({"metadata": {"creationTimestamp": now}, "status": {"userInfo": user_info(user)}});
            }
            "SelfSubjectRulesReview" => {
                let namespace = text_at(&object, "/spec/namespace");
                if namespace.is_empty() {
                    return Err(Failure::bad_request("no namespace on request"));
                }
                object = json!({"metadata": {}, "spec": {}, "status": self.rules(user, namespace)});
            }
            "TokenReview" => {
                let token = text_at(&object, "/spec/token").to_owned();
                if token.is_empty() {
                    return Err(Failure::bad_request("token is required for TokenReview in authentication"));
                }
                object = tracked(place, object, by);
                object["status"] = self.token_status(&token, &object["spec"]["audiences"]);
            }
            _ => {
                object = tracked(place, object, by);
                if kind.namespaced() {
                    metadata_mut(&mut object).insert("namespace", place.namespace.as_str().into());
                } else if named {
                    let value = object["metadata"].clone();
                    return Err(invalid(FieldFault::invalid("metadata", &value, "must be empty")));
                }
                object["status"] = self.access(place, &object, user)?;
            }
        }
        Ok(Served::value(kind, object))
    }

    fn access(&self, place: &Place, review: &Json, user: &User) -> Outcome<Json> {
        let spec = &review["spec"];
        let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        match (resource.is_null(), path.is_null()) {
            (true, true) => {
                let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                return Err(invalid(FieldFault::invalid("spec.resourceAttributes", &Json::Null, why)));
            }
            (false, false) => {
                let why = "cannot be specified in combination with resourceAttributes";
                return Err(invalid(FieldFault::invalid("spec.nonResourceAttributes", path, why)));
            }
            _ => (),
        }
        let subject = match place.kind.kind.as_str() {
            "SelfSubjectAccessReview" => user.clone(),
            _ => subject(spec)?,
        };
        let of = |value: &Json, field: &str| value[field].as_str().unwrap_or_default().to_owned();
        if place.kind.namespaced() && of(resource, "namespace") != place.namespace {
            let namespace = of(resource, "namespace");
            let why = "must match metadata.namespace";
            return Err(invalid(FieldFault::invalid_text("spec.resourceAttributes.namespace", &namespace, why)));
        }
        let decision = match resource.is_null() {
            true => {
                let (verb, path) = (of(path, "verb"), of(path, "path"));
                auth::decide(self.rbac(), &subject, &Attributes::Path { verb: &verb, path: &path })
            }
            false => {
                let (verb, name) = (of(resource, "verb"), of(resource, "name"));
                let path = ResourcePath {
                    group: of(resource, "group"),
                    version: of(resource, "version"),
                    namespace: of(resource, "namespace"),
                    resource: of(resource, "resource"),
                    name: name.clone(),
                    subresource: of(resource, "subresource"),
                    ..ResourcePath::default()
                };
                auth::decide(self.rbac(), &subject, &Attributes::Resource { verb: &verb, path: &path, name: &name })
            }
        };
        Ok(match decision {
            Decision::Allowed(reason) if reason.is_empty() => json!({"allowed": true}),
            Decision::Allowed(reason) => json!({"allowed": true, "reason": reason}),
            Decision::NoOpinion(None) => json!({"allowed": false}),
            Decision::NoOpinion(Some(wrong)) => json!({"allowed": false, "reason": wrong}),
        })
    }

    fn token_status(&self, token: &str, audiences: &Json) -> Json {
        let asked = audiences.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned);
        let mut audiences: Vec<_> = asked.collect();
        if audiences.is_empty() {
            audiences.push(auth::ISSUER.into());
        }
        match self.authenticator.user(&self.db, token, &audiences, self.clock.now().as_second()) {
            Ok((user, audiences)) => {
                json!({"authenticated": true, "user": user_info(&user), "audiences": audiences})
            }
            Err(unknown) => json!({"user": {}, "error": unknown.to_string()}),
        }
    }

    fn rules(&self, user: &User, namespace: &str) -> Json {
        let granted = auth::rules(self.rbac(), user, namespace);
        let (mut resources, mut paths) = (Vec::new(), Vec::new());
        for rule in granted.rules() {
            match rule.value()["nonResourceURLs"].is_null() {
                true => resources.push(rule.value().clone()),
                false => paths.push(rule.value().clone()),
            }
        }
        let wrong = granted.wrong();
        let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": wrong.is_some()});
        if let Some(wrong) = wrong {
            status["evaluationError"] = wrong.into();
        }
        status
    }
}

/// A review with its owners, which is all that it has in common with what is stored.
fn tracked(place: &Place, new: Json, by: &Writer<'_>) -> Json {
    let mut write = Write { place, old: None, new, by, how: How::Post };
    write.track();
    write.new
}

/// Whom a review asks about.
fn subject(spec: &Json) -> Outcome<User> {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let user = User {
        name: text_at(spec, "/user").into(),
        uid: text_at(spec, "/uid").into(),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    };
    if user.name.is_empty() && user.groups.is_empty() {
        return Err(invalid(FieldFault::invalid_text(
            "spec.user",
            "",
            "at least one of user or group must be specified",
        )));
    }
    Ok(user)
}

fn user_info(user: &User) -> Json {
    let mut info = json!({"username": user.name, "groups": *user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn invalid(fault: FieldFault) -> Failure {
    Failure::invalid_named("authorization.k8s.io", "", "", Faults::from([fault]))
}

//! The subresource `/scale`, which represents the replicas of an object as an `autoscaling/v1` Scale.

use std::sync::LazyLock;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, metadata_mut};
use pintle_apimachinery::request::options::How;
use pintle_apimachinery::selector::structured_text;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_meta::{GroupResource, LabelSelector};
use pintle_schema::patch::go_text;

use crate::request_target::RequestTarget;

/// The paths of the fields that determine a Scale, each beginning with a dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The path of the desired number of replicas.
    pub spec_replicas: String,
    /// The path of the observed number of replicas.
    pub status_replicas: String,
    /// The path of the selector: a string, a map of labels or a `LabelSelector`. The path is empty if the object has no
    /// selector.
    pub label_selector: String,
    /// Whether a custom resource definition declares the paths. If `true`, an object without a number of replicas has
    /// no Scale, and its Scale cannot be converted to another version.
    pub is_declared: bool,
}

impl Scale {
    /// Returns the paths that all built-in workloads use.
    pub fn workload() -> &'static Self {
        static WORKLOAD: LazyLock<Scale> = LazyLock::new(|| Scale {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: ".spec.selector".into(),
            is_declared: false,
        });
        &WORKLOAD
    }

    /// Returns an object's Scale, or an error if a custom resource has no replicas field, or if a field of the Scale has
    /// the wrong type.
    pub fn read(&self, object: &Json) -> Outcome<Json> {
        self.check_types(object)?;
        let absent = || format!("the spec replicas field {:?} does not exist", self.spec_replicas);
        self.try_read(object).ok_or_else(|| Failure::internal(absent()))
    }

    /// Returns an error if a custom resource has a field of the wrong type at one of the declared paths. `null` also has
    /// the wrong type.
    pub fn check_types(&self, object: &Json) -> Outcome<()> {
        if !self.is_declared {
            return Ok(());
        }
        let replicas = [&self.spec_replicas, &self.status_replicas];
        let check = replicas.into_iter().try_for_each(|path| nested_integer(path, object).map(drop));
        check.and_then(|()| nested_text(&self.label_selector, object).map(drop)).map_err(|why| Failure::plain(500, why))
    }

    /// Returns the Scale for a write request. An object without a number of replicas gets a Scale with 0 replicas.
    pub fn present(&self, object: &Json) -> Json {
        let of_none = || self.try_read(&self.write(&json!({"spec": {"replicas": 0}}), object));
        self.try_read(object).or_else(of_none).unwrap_or_default()
    }

    /// Returns the same Scale as [`present`](Self::present), but with the `managedFields` entries of the replicas.
    pub fn owned(&self, object: &Json) -> Json {
        let mut scale = self.present(object);
        let entries = pintle_fieldmanager::scale_entries(object, &self.spec_replicas);
        if !entries.is_null() {
            metadata_mut(&mut scale).set("managedFields", entries);
        }
        scale
    }

    fn try_read(&self, object: &Json) -> Option<Json> {
        let wanted = at(&self.spec_replicas, object).and_then(Json::as_i64);
        if self.is_declared && wanted.is_none() {
            return None;
        }
        let there = at(&self.status_replicas, object).and_then(Json::as_i64).unwrap_or(0);
        let mut status = json!({"replicas": there});
        let selector = match at(&self.label_selector, object) {
            Some(Json::String(text)) => text.to_string(),
            Some(selector @ Json::Object(labels)) => {
                match selector.get("matchLabels").or(selector.get("matchExpressions")) {
                    Some(_) => structured_text(selector),
                    None => {
                        let labels = labels.iter().map(|(key, value)| (key, value.as_str().unwrap_or_default()));
                        LabelSelector::from_labels(labels).map(|selector| selector.to_string()).unwrap_or_default()
                    }
                }
            }
            _ => String::new(),
        };
        if !selector.is_empty() {
            status.set("selector", selector);
        }
        let mut metadata = json!({});
        for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.at(&format!("/metadata/{key}")) {
                metadata.set(key, value.clone());
            }
        }
        let spec = match wanted.unwrap_or(0) {
            0 => json!({}),
            wanted => json!({"replicas": wanted}),
        };
        Some(
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}),
        )
    }

    /// Returns the object with the number of replicas from the Scale, or with 0 replicas if the Scale has no number.
    pub fn write(&self, scale: &Json, object: &Json) -> Json {
        let replicas =
            scale.at("/spec/replicas").filter(|replicas| !replicas.is_null()).cloned().unwrap_or_else(|| 0.into());
        let mut object = object.clone();
        let mut names: Vec<&str> = self.spec_replicas.trim_start_matches('.').split('.').collect();
        let last = names.pop().unwrap_or_default();
        let parent = names.into_iter().try_fold(&mut object, Json::member);
        if let Some(parent) = parent {
            parent.set(last, replicas);
        }
        object
    }
}

impl Scale {
    /// Returns an error if the written Scale is invalid or belongs to another object.
    pub fn check(&self, target: &RequestTarget, scale: &Json, live: &Json, how: How, dry_run: bool) -> Outcome<()> {
        target.check_name(metadata::name(scale))?;
        target.check_namespace(metadata::namespace(scale))?;
        let uid = metadata::uid(scale);
        if !uid.is_empty() && uid != metadata::uid(live) {
            let found = metadata::uid(live);
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            let GroupResource { group, resource } = target.kind.resource();
            let scale = GroupResource::new(group, format!("{resource}/scale"));
            return Err(match how {
                // For a PUT, check the uid as a precondition before decoding the body as a Scale.
                How::Put => target.uid_conflict(uid, found, dry_run),
                _ => Failure::conflict(&scale, &target.name, &why),
            });
        }
        let replicas = scale.at("/spec/replicas").filter(|replicas| replicas.as_i64().is_some_and(|n| n < 0));
        match replicas {
            // Skip custom resources, because their schema later validates the number of replicas with the whole object.
            Some(replicas) if !self.is_declared => {
                let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
                Err(Failure::invalid_named("autoscaling", "Scale", &target.name, FieldErrors::from([error])))
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if no manager owns a field of a Scale that cannot be converted to other versions. A server-side
    /// apply would have to convert such a Scale to record its existing fields.
    pub fn check_owners(&self, present: &Json) -> Outcome<()> {
        if !self.is_declared || present.list("/metadata/managedFields").next().is_some() {
            return Ok(());
        }
        let why = "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) \
                   to proper version: request to convert CR to an invalid group/version: autoscaling/v1";
        Err(Failure::plain(500, why))
    }

    /// Returns an error if a server-side apply changes the spec of a Scale that cannot be converted to other versions.
    /// `applied` is the body of the request.
    pub fn check_applied(&self, applied: &Json, scale: &Json, present: &Json) -> Outcome<()> {
        if !self.is_declared || scale.get("spec") == present.get("spec") {
            return Ok(());
        }
        Err(Failure::plain(
            500,
            format!(
                "failed to convert new object ({}/{}; autoscaling/v1, Kind=Scale) to proper version: request to convert \
                 CR to an invalid group/version: autoscaling/v1",
                metadata::namespace(applied),
                metadata::name(applied)
            ),
        ))
    }
}

/// Returns the integer at a path, or `None` if an object in the path lacks the next field. Returns the error text of
/// apimachinery's `NestedInt64` if a value has the wrong type.
pub fn nested_integer(path: &str, object: &Json) -> Result<Option<i64>, String> {
    let value = nested(path, object)?;
    value.map(|value| value.as_i64().ok_or_else(|| type_error(path, value, "int64"))).transpose()
}

/// Returns the string at a path, like [`nested_integer`]. Returns `None` if the path is empty.
pub fn nested_text<'a>(path: &str, object: &'a Json) -> Result<Option<&'a str>, String> {
    let value = if path.is_empty() { None } else { nested(path, object)? };
    value.map(|value| value.as_str().ok_or_else(|| type_error(path, value, "string"))).transpose()
}

fn nested<'a>(path: &str, object: &'a Json) -> Result<Option<&'a Json>, String> {
    let (mut value, mut end) = (object, 0);
    for name in path.trim_start_matches('.').split('.') {
        end += 1 + name.len();
        if value.is_null() {
            return Ok(None);
        }
        if !value.is_object() {
            return Err(type_error(path.get(..end).unwrap_or(path), value, "map[string]interface{}"));
        }
        let Some(next) = value.get(name) else { return Ok(None) };
        value = next;
    }
    Ok(Some(value))
}

fn type_error(path: &str, value: &Json, expected: &str) -> String {
    let go_type = match value {
        Json::Null => "<nil>",
        Json::String(_) => "string",
        Json::Bool(_) => "bool",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
        _ if value.is_i64() => "int64",
        _ => "float64",
    };
    let text = if value.is_null() { "<nil>".to_owned() } else { go_text(value) };
    format!("{path} accessor error: {text} is of the type {go_type}, expected {expected}")
}

fn at<'a>(path: &str, object: &'a Json) -> Option<&'a Json> {
    if path.is_empty() {
        return None;
    }
    path.trim_start_matches('.').split('.').try_fold(object, |object, name| object.get(name))
}

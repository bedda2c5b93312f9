//! The core `Secret` kind.

mod key_pair;

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;

use super::{MAX_DATA, decoded_size, immutable, key_errors};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) struct Secret;

const KEYS_OF_TYPES: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

impl Strategy for Secret {
    fn defaults(&self, object: &mut Json) {
        if object.text("/type").is_empty() {
            object.set("type", "Opaque");
        }
        let texts = object["stringData"].as_object().cloned().unwrap_or_default();
        if !texts.is_empty()
            && let Some(data) = object.member("data")
        {
            for (key, text) in texts {
                data.set(&key, STANDARD.encode(text.as_str().unwrap_or_default()));
            }
        }
        object.unset("stringData");
        for (_, value) in object.get_mut("data").and_then(Json::as_object_mut).into_iter().flatten() {
            if value.is_null() {
                *value = "".into();
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let mut errors = key_errors(object, "data");
        if decoded_size(object, "data") > MAX_DATA {
            errors.push(FieldError::too_long("data", MAX_DATA));
        }
        let kind = object.text("/type");
        let has_key = |key: &str| object["data"].as_object().is_some_and(|data| data.contains_key(key));
        for (_, keys) in KEYS_OF_TYPES.iter().filter(|(known, _)| *known == kind) {
            errors.extend(
                keys.iter().filter(|key| !has_key(key)).map(|key| FieldError::required(format!("data[{key}]"), "")),
            );
        }
        match kind {
            "kubernetes.io/basic-auth" if !has_key("username") && !has_key("password") => {
                errors.push(FieldError::required("data[username]", ""));
                errors.push(FieldError::required("data[password]", ""));
            }
            "kubernetes.io/service-account-token" => {
                let pointer = "/metadata/annotations/kubernetes.io~1service-account.name";
                if object.text(pointer).is_empty() {
                    errors.push(FieldError::required("metadata.annotations[kubernetes.io/service-account.name]", ""));
                }
            }
            "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson" => {
                let key = if kind.ends_with("cfg") { ".dockercfg" } else { ".dockerconfigjson" };
                let data = object["data"][key].as_str();
                let json = data.and_then(|data| STANDARD.decode(data).ok());
                if json.is_some_and(|json| serde_json::from_slice::<Json>(&json).is_err()) {
                    let why = "invalid character in the JSON of a docker configuration";
                    errors.push(FieldError::invalid_text(format!("data[{key}]"), "<secret contents redacted>", why));
                }
            }
            "kubernetes.io/ssh-auth" if object["data"]["ssh-privatekey"].is_empty() => {
                errors.push(FieldError::required("data[ssh-privatekey]", ""));
            }
            _ => {}
        }
        errors
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if new.get("type") != old.get("type") {
            errors.push(FieldError::invalid("type", &new["type"], "field is immutable"));
        }
        errors.extend(immutable(new, old, &["data"]));
        errors.extend(self.validate_create(new));
        errors
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, _: Subresource) -> Vec<String> {
        match object.text("/type") {
            "kubernetes.io/tls" => key_pair::key_pair(object).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn secrets(&self) -> &'static [&'static str] {
        &["data", "stringData", "metadata.annotations"]
    }
}

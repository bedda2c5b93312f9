//! The small kinds of the core group.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::check::Check;
use super::cluster::BETA_CLASS;
use super::networking::{is_of_this_server, special_address};
use super::pods::{claim_spec, pod_template, validate_template};
use super::{Context, Strategy, warnings};
use crate::object::{default, has, items, list, member, put_back, remove, set, set_metadata, text_at};
use crate::request::Part;
use crate::schema::quantity;
use crate::validate::{FieldFault, NameRule, name_faults};

const DATA_AT_MOST: usize = 1024 * 1024;

/// `v1` ConfigMap.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        faults.extend(key_faults(object, "data"));
        faults.extend(key_faults(object, "binaryData"));
        for key in members(object, "data") {
            if has(object, "/binaryData")
                && object.pointer("/binaryData").and_then(Value::as_object).is_some_and(|data| data.contains_key(key))
            {
                faults.push(FieldFault::invalid_text(
                    format!("data[{key}]"),
                    key,
                    "duplicate of key present in binaryData",
                ));
            }
        }
        let text: usize = object
            .get("data")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(_, value)| value.as_str().map_or(0, str::len))
            .sum();
        let binary: usize = decoded_size(object, "binaryData");
        if text + binary > DATA_AT_MOST {
            faults.push(FieldFault::too_long("", DATA_AT_MOST));
        }
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        let mut faults = immutable(new, old, &["data", "binaryData"]);
        faults.extend(self.validate_create(new));
        faults
    }
}

/// `v1` Secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secret;

/// Types whose secrets need keys: all of these.
const KEYS_OF_TYPES: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

impl Strategy for Secret {
    fn defaults(&self, object: &mut Value) {
        if text_at(object, "/type").is_empty() {
            set(object, "type", "Opaque".into());
        }
        let texts = object.get("stringData").and_then(Value::as_object).cloned().unwrap_or_default();
        if !texts.is_empty()
            && let Some(data) = member(object, "data")
        {
            for (key, text) in texts {
                set(data, &key, STANDARD.encode(text.as_str().unwrap_or_default()).into());
            }
        }
        remove(object, "stringData");
        for (_, value) in object.get_mut("data").and_then(Value::as_object_mut).into_iter().flatten() {
            if value.is_null() {
                *value = "".into();
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = key_faults(object, "data");
        if decoded_size(object, "data") > DATA_AT_MOST {
            faults.push(FieldFault::too_long("data", DATA_AT_MOST));
        }
        let kind = text_at(object, "/type");
        let there =
            |key: &str| object.get("data").and_then(Value::as_object).is_some_and(|data| data.contains_key(key));
        for (_, keys) in KEYS_OF_TYPES.iter().filter(|(known, _)| *known == kind) {
            faults.extend(
                keys.iter().filter(|key| !there(key)).map(|key| FieldFault::required(format!("data[{key}]"), "")),
            );
        }
        match kind {
            "kubernetes.io/basic-auth" if !there("username") && !there("password") => {
                faults.push(FieldFault::required("data[%s]", ""));
                faults.push(FieldFault::required("data[%s]", ""));
                for (fault, key) in faults.iter_mut().rev().zip(["password", "username"]) {
                    fault.field = format!("data[{key}]");
                }
            }
            "kubernetes.io/service-account-token" => {
                let pointer = "/metadata/annotations/kubernetes.io~1service-account.name";
                if text_at(object, pointer).is_empty() {
                    faults.push(FieldFault::required("metadata.annotations[kubernetes.io/service-account.name]", ""));
                }
            }
            "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson" => {
                let key = if kind.ends_with("cfg") { ".dockercfg" } else { ".dockerconfigjson" };
                let data = object.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
                let json = data.and_then(|data| STANDARD.decode(data).ok());
                if json.is_some_and(|json| serde_json::from_slice::<Value>(&json).is_err()) {
                    let why = "invalid character in the JSON of a docker configuration";
                    faults.push(FieldFault::invalid_text(format!("data[{key}]"), "<secret contents redacted>", why));
                }
            }
            _ => {}
        }
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        if new.get("type") != old.get("type") {
            faults.push(FieldFault::invalid("type", new.get("type").unwrap_or(&Value::Null), "field is immutable"));
        }
        faults.extend(immutable(new, old, &["data"]));
        faults.extend(self.validate_create(new));
        faults
    }

    fn warnings(&self, object: &Value, _: Option<&Value>, _: Part) -> Vec<String> {
        match text_at(object, "/type") {
            "kubernetes.io/tls" => warnings::key_pair(object).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["type"])
    }
}

/// `v1` Endpoints.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn deprecation(&self) -> Option<&str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn warnings(&self, object: &Value, _: Option<&Value>, _: Part) -> Vec<String> {
        let labels = object.pointer("/metadata/labels");
        let controller = labels.and_then(|labels| labels.get("endpoints.kubernetes.io/managed-by"));
        if controller.is_some_and(|controller| controller == "endpoint-controller") {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (at, subset) in list(object, "/subsets").enumerate() {
            for key in ["addresses", "notReadyAddresses"] {
                for (nth, address) in list(subset, &format!("/{key}")).enumerate() {
                    found.extend(warnings::ip(text_at(address, "/ip"), &format!("subsets[{at}].{key}[{nth}].ip")));
                }
            }
        }
        found
    }

    fn defaults(&self, object: &mut Value) {
        for subset in items(object, "subsets") {
            items(subset, "ports").for_each(|port| default(port, "protocol", "TCP"));
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object)
            .each("subsets", |subset, _| {
                let both = ["/addresses", "/notReadyAddresses"];
                let none = both.iter().all(|pointer| list(subset.object(), pointer).next().is_none());
                let why = "must specify `addresses` or `notReadyAddresses`";
                let subset = subset.refuse(none, || FieldFault::required("", why));
                let subset = subset.each("addresses", |address, _| address_faults(object, address));
                subset.each("notReadyAddresses", |address, _| address_faults(object, address)).each(
                    "ports",
                    |port, _| {
                        let number = port.object().get("port").and_then(Value::as_i64).unwrap_or(0);
                        port.refuse(!(1..=65535).contains(&number), || {
                            FieldFault::invalid("port", &number.into(), "must be between 1 and 65535, inclusive")
                        })
                        .one_of("protocol", &["SCTP", "TCP", "UDP"])
                    },
                )
            })
            .done()
    }
}

fn address_faults<'a>(endpoints: &Value, address: Check<'a>) -> Check<'a> {
    let ip = text_at(address.object(), "/ip");
    let wrong = ip.parse::<std::net::IpAddr>().is_err();
    let special = special_address(ip, "ip").filter(|_| !is_of_this_server(endpoints, ip));
    address
        .refuse(wrong, || {
            FieldFault::invalid_text("ip", ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        })
        .refuse(wrong, || FieldFault::invalid_text("ip", ip, "must be a valid IP address"))
        .refuse(special.is_some(), || special.unwrap_or_else(|| FieldFault::required("ip", "")))
}

/// `v1` ComponentStatus, which nobody writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComponentStatus;

impl Strategy for ComponentStatus {
    fn deprecation(&self) -> Option<&str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }
}

/// `v1` ServiceAccount.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        const KEY: &str = "kubernetes.io/enforce-mountable-secrets";
        let had = old.is_some_and(|old| warnings::is_annotated(old, KEY));
        let why = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
        match warnings::is_annotated(object, KEY) && !had {
            true => vec![format!("metadata.annotations[{KEY}]: {why}")],
            false => Vec::new(),
        }
    }
}

/// `v1` Namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Namespace;

impl Namespace {
    fn label(object: &mut Value) {
        let name = text_at(object, "/metadata/name").to_owned();
        if name.is_empty() {
            return;
        }
        if let Some(labels) = member(object, "metadata").and_then(|metadata| member(metadata, "labels")) {
            set(labels, "kubernetes.io/metadata.name", name.into());
        }
    }
}

impl Strategy for Namespace {
    fn defaults(&self, object: &mut Value) {
        Self::label(object);
        member(object, "spec");
        if let Some(status) = member(object, "status")
            && text_at(status, "/phase").is_empty()
        {
            set(status, "phase", "Active".into());
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        Self::label(object);
        set(object, "status", json!({"phase": "Active"}));
        if let Some(spec) = member(object, "spec") {
            let mut finalizers: Vec<Value> = list(spec, "/finalizers").cloned().collect();
            if !finalizers.contains(&"kubernetes".into()) {
                finalizers.push("kubernetes".into());
            }
            set(spec, "finalizers", finalizers.into());
        }
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Value, old: &Value, part: Part) {
        match part {
            Part::Object => {
                put_back(new, old, "status");
                let finalizers = old.pointer("/spec/finalizers").cloned();
                if let Some(spec) = member(new, "spec") {
                    match finalizers {
                        Some(finalizers) => set(spec, "finalizers", finalizers),
                        None => remove(spec, "finalizers"),
                    }
                }
            }
            Part::Finalize => put_back(new, old, "status"),
            _ => {}
        }
        Self::label(new);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        list(object, "/spec/finalizers")
            .filter_map(Value::as_str)
            .filter(|name| !name.contains('/') && *name != "kubernetes")
            .map(|name| {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                FieldFault::invalid_text("spec.finalizers", name, why)
            })
            .collect()
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        match part {
            Part::Status => {
                let phase = text_at(new, "/status/phase");
                let terminating = has(old, "/metadata/deletionTimestamp");
                let (wrong, why) = match terminating {
                    true => (phase != "Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
                    false => (phase != "Active", "may only be 'Active' if `deletionTimestamp` is empty"),
                };
                if wrong { vec![FieldFault::invalid_text("status.Phase", phase, why)] } else { Vec::new() }
            }
            Part::Finalize => {
                let names = list(new, "/spec/finalizers").filter_map(Value::as_str).enumerate();
                let plain = names.filter(|(_, name)| !name.contains('/') && *name != "kubernetes");
                let fault = |(at, name): (usize, &str)| {
                    let why = "name is neither a standard finalizer name nor is it fully qualified";
                    FieldFault::invalid_text(format!("spec.finalizers[{at}]"), name, why)
                };
                plain.map(fault).collect()
            }
            _ => self.validate_create(new),
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["status.phase"])
    }
}

/// `v1` PersistentVolumeClaim.
#[derive(Clone, Copy, Debug)]
pub(super) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn warnings(&self, object: &Value, _: Option<&Value>, part: Part) -> Vec<String> {
        if part != Part::Object {
            return Vec::new();
        }
        let mut found = Vec::new();
        if warnings::is_annotated(object, BETA_CLASS) {
            let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            found.push(format!("metadata.annotations[{BETA_CLASS}]: {why}"));
        }
        found.extend(warnings::claim(object.get("spec").unwrap_or(&Value::Null), "spec"));
        found
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            claim_spec(spec);
        }
        if let Some(status) = member(object, "status")
            && text_at(status, "/phase").is_empty()
        {
            set(status, "phase", "Pending".into());
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"phase": "Pending"}));
    }

    fn settles_late(&self, _: &Value) -> bool {
        // The phase is left to defaulting.
        true
    }

    fn admit(
        &self,
        _: &Context<'_>,
        object: &mut Value,
        old: Option<&Value>,
        _: Part,
    ) -> Result<(), Box<pintle_meta::Status>> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/pvc-protection");
        }
        Ok(())
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        if list(object, "/spec/accessModes").next().is_none() {
            faults.push(FieldFault::required("spec.accessModes", "at least 1 access mode is required"));
        }
        for mode in list(object, "/spec/accessModes") {
            let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
            if !mode.as_str().is_some_and(|mode| known.contains(&mode)) {
                faults.push(FieldFault::unsupported("spec.accessModes", mode, &known));
            }
        }
        match object.pointer("/spec/resources/requests/storage").and_then(Value::as_str) {
            None => faults.push(FieldFault::required("spec.resources[storage]", "")),
            Some(amount) if quantity::nanos(amount).is_some_and(|nanos| nanos <= 0) => {
                faults.push(FieldFault::invalid_text("spec.resources[storage]", amount, "must be greater than zero"));
            }
            Some(_) => {}
        }
        let modes = &["Block", "Filesystem"];
        let more =
            Check::of(object).name("spec.storageClassName", NameRule::Subdomain).one_of("spec.volumeMode", modes);
        faults.extend(more.done());
        faults
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        if part != Part::Object {
            return Vec::new();
        }
        let mut faults = self.validate_create(new);
        let fixed = |object: &Value| {
            let mut spec = object.get("spec").cloned().unwrap_or_default();
            for key in ["storageClassName", "volumeName"] {
                if !has(old, &format!("/spec/{key}")) {
                    remove(&mut spec, key);
                }
            }
            spec
        };
        if fixed(new) != fixed(old) {
            let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            faults.push(FieldFault::forbidden("spec", why));
        }
        faults
    }
}

/// Adds a finalizer that is not there yet.
pub(super) fn add_finalizer(object: &mut Value, name: &str) {
    let mut finalizers: Vec<Value> = list(object, "/metadata/finalizers").cloned().collect();
    if !finalizers.contains(&name.into()) {
        finalizers.push(name.into());
        set_metadata(object, "finalizers", finalizers.into());
    }
}

/// `v1` PodTemplate.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodTemplate;

impl Strategy for PodTemplate {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old {
            None => warnings::template(object, "/template"),
            Some(old) => warnings::changed_template(object, old, "/template"),
        }
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(template) = member(object, "template") {
            pod_template(template);
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        validate_template(object.get("template").unwrap_or(&Value::Null), "template")
    }
}

fn members<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a String> {
    object.get(key).and_then(Value::as_object).into_iter().flat_map(|members| members.keys())
}

/// The keys of data become names of files.
fn key_faults(object: &Value, member: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for key in members(object, member) {
        let field = || format!("{member}[{key}]");
        let why = name_faults(NameRule::ConfigKey, key, false);
        faults.extend(why.into_iter().map(|why| FieldFault::invalid_text(field(), key, why)));
    }
    faults
}

fn decoded_size(object: &Value, member: &str) -> usize {
    let texts =
        object.get(member).and_then(Value::as_object).into_iter().flatten().filter_map(|(_, value)| value.as_str());
    texts
        .map(|text| {
            text.len() / 4 * 3 - text.bytes().rev().take_while(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
        })
        .sum()
}

fn immutable(new: &Value, old: &Value, members: &[&str]) -> Vec<FieldFault> {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let why = "field is immutable when `immutable` is set";
    let mut faults = Vec::new();
    if new.get("immutable") != Some(&Value::Bool(true)) {
        faults.push(FieldFault::forbidden("immutable", why));
    }
    faults.extend(
        members.iter().filter(|key| new.get(**key) != old.get(**key)).map(|key| FieldFault::forbidden(*key, why)),
    );
    faults
}

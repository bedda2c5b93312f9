//! The API without a running server, which consists of a registry of kinds and the CustomResourceDefinition controller.

use std::sync::Arc;

use pintle_apimachinery::failure::Failure;
use pintle_apimachinery::object::{metadata, metadata_mut};
use pintle_apimachinery::request::options::WriteOptions;
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::request::{Requester, Subresource};
use pintle_builtin::NAMESPACES;
use pintle_json::{Json, json};
use pintle_kinds::decode::{self, BodyMedia, RawBody};
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, RequestTarget};
use pintle_meta::__private::Mutex;
use pintle_meta::FieldValidation;
use pintle_storage::{Expect, ResourceKey};
use serde::Serialize;

use super::{CheckedObject, Rejection, RuleCost};
use crate::background::Definitions;
use crate::config::ApiServerConfig;
use crate::registry::{Registry, UpdateSource, Written};

const MANAGER: &str = "crd-checker";
const SAMPLE_NAME: &str = "sample";

#[derive(Clone)]
pub(super) struct Sample {
    pub(super) value: Json,
    body: RawBody,
}

impl Sample {
    pub(super) fn new(manifest: impl Serialize) -> Result<Self, Rejection> {
        let unreadable = |why: &dyn std::fmt::Display| Rejection::invalid(format!("cannot read the manifest: {why}"));
        let value = serde_json::to_value(manifest).map_err(|error| unreadable(&error))?;
        let body = match value {
            serde_json::Value::String(text) => {
                let documents = pintle_schema::yaml_documents(&text);
                if documents
                    .filter(|document| document.as_ref().is_ok_and(|document| !document.is_null()))
                    .nth(1)
                    .is_some()
                {
                    return Err(unreadable(&"it has more than one document"));
                }
                RawBody::new(text.into_bytes().into(), BodyMedia::Yaml)
            }
            value => RawBody::json(value.to_string()),
        };
        let value = body.value(("", "")).map_err(|why| unreadable(&why))?;
        if !value.is_object() {
            return Err(unreadable(&"it is not an object"));
        }
        Ok(Self { value, body })
    }

    pub(super) fn of(value: Json) -> Self {
        Self { body: RawBody::json(value.to_string()), value }
    }

    /// Adds the type and the name if the manifest omits them. A complete manifest stays unchanged, because re-encoding
    /// it would hide duplicate keys.
    fn with_defaults(self, default_type: &DefaultType, name: &str) -> Self {
        let (mut value, has_name) = (self.value.clone(), self.has_name());
        value.set_default("apiVersion", default_type.api_version.as_str());
        value.set_default("kind", default_type.kind.as_str());
        if !has_name && value.get("metadata").is_none_or(Json::is_object) {
            metadata_mut(&mut value).set("name", name);
        }
        if value == self.value { self } else { Self::of(value) }
    }

    fn has_name(&self) -> bool {
        self.value.has("/metadata/name") || self.value.has("/metadata/generateName")
    }

    pub(super) fn title(&self) -> String {
        let kind = self.value.text("/kind");
        let kind = if kind.is_empty() { "an object without a kind" } else { kind };
        let name = [self.value.text("/metadata/name"), self.value.text("/metadata/generateName"), "without a name"];
        format!("{kind} {}", name.into_iter().find(|name| !name.is_empty()).unwrap_or_default())
    }

    pub(super) fn is_definition(&self) -> bool {
        self.value.text("/kind") == "CustomResourceDefinition"
    }
}

#[derive(Clone, Debug, Default)]
struct DefaultType {
    api_version: String,
    kind: String,
}

#[derive(Debug)]
pub(super) struct Defined {
    pub(super) name: String,
    pub(super) rules: Vec<RuleCost>,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Offline {
    registry: Arc<Registry>,
    definitions: Definitions,
    default_type: DefaultType,
    /// Serializes the checks, because an update check temporarily stores the namespace and the old object.
    checking: Mutex<()>,
}

impl Offline {
    pub(super) fn new() -> Self {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        Self {
            registry,
            definitions: Definitions::default(),
            default_type: DefaultType::default(),
            checking: Mutex::default(),
        }
    }

    pub(super) fn define(&mut self, sample: Sample) -> Result<Defined, Rejection> {
        if !sample.is_definition() {
            return Err(Rejection::invalid(format!("{} is not a CustomResourceDefinition", sample.title())));
        }
        let name = metadata::name(&sample.value).to_owned();
        let old = self.registry.db.get(pintle_apiextensions::DEFINITIONS, &name);
        self.remove(&pintle_apiextensions::DEFINITIONS.into(), &name);
        let defined = self.define_absent(sample, &name);
        if defined.is_err() {
            self.remove(&pintle_apiextensions::DEFINITIONS.into(), &name);
            if let Some(old) = old {
                let restored = self.registry.db.put(
                    &pintle_apiextensions::DEFINITIONS.into(),
                    &name,
                    Expect::Absent,
                    old.decode(),
                );
                restored.map_err(|_| Rejection::invalid(format!("the definition {name} is lost; check it again")))?;
            }
            self.definitions.serve_definition(&self.registry, &name);
        }
        defined
    }

    fn define_absent(&mut self, sample: Sample, name: &str) -> Result<Defined, Rejection> {
        let checked = self.write(sample, None, WriteOptions::default())?;
        self.definitions.serve_definition(&self.registry, name);
        let stored = self
            .registry
            .db
            .get(pintle_apiextensions::DEFINITIONS, name)
            .map(|stored| stored.decode())
            .unwrap_or_default();
        if !pintle_apiextensions::is_established(&stored) {
            let failed = stored.list("/status/conditions").filter(|condition| condition.text("/status") == "False");
            let why: Vec<_> = failed.map(|condition| condition.text("/message")).collect();
            return Err(Rejection::invalid(format!("the definition {name} is not served: {}", why.join("; "))));
        }
        if let Some(kind) = pintle_apiextensions::storage_version_kind(&stored) {
            self.default_type = DefaultType { api_version: kind.api_version(), kind: kind.kind };
        }
        Ok(Defined { name: name.into(), rules: pintle_apiextensions::rule_costs(&stored), warnings: checked.warnings })
    }

    pub(super) fn completed(&self, sample: Sample) -> Sample {
        sample.with_defaults(&self.default_type, SAMPLE_NAME)
    }

    pub(super) fn create(&self, sample: Sample) -> Result<CheckedObject, Rejection> {
        let _turn = self.checking.lock();
        self.write(sample, None, WriteOptions { dry_run: true, ..WriteOptions::default() })
    }

    pub(super) fn update(&self, old: Sample, new: Sample, is_status: bool) -> Result<CheckedObject, Rejection> {
        let old = self.completed(old);
        let _turn = self.checking.lock();
        let kind = self.kind(&old.value)?;
        let target = target(&kind, &old.value);
        let old_status = old.value.get("status").cloned();
        let created = self.written(old, None, &WriteOptions::default())?.0.object.typed();
        let name = metadata::name(&created).to_owned();
        let target = RequestTarget { name, ..target };
        let outcome = self.update_stored(&target, old_status, new, is_status);
        self.remove(&target.resource_key(), &target.key());
        outcome
    }

    fn update_stored(
        &self,
        target: &RequestTarget,
        old_status: Option<Json>,
        new: Sample,
        is_status: bool,
    ) -> Result<CheckedObject, Rejection> {
        let (resource, key) = (target.resource_key(), target.key());
        let stored = self.registry.db.get(&resource, &key);
        let mut stored = stored.ok_or_else(|| Failure::not_found(&target.kind.resource(), &target.name))?;
        // Write the old status separately, because a create request drops the status, and transition rules need it.
        if let Some(status) = old_status.filter(|_| target.kind.splits_status()) {
            let mut object = stored.decode();
            object.set("apiVersion", stored.version());
            object.set("status", status);
            let expect = Expect::At(stored.revision());
            let change = self.registry.db.put(&resource, &key, expect, object);
            stored = change.map_err(|_| Failure::modified(&target.kind.resource(), &target.name))?.new.clone();
        }
        let mut value = new.with_defaults(&self.default_type, &target.name).value;
        let kind = self.kind(&value)?;
        if kind.stored_as != target.kind.stored_as {
            let why = format!("a {} cannot be updated to a {}", target.kind.kind, kind.kind);
            return Err(Rejection::invalid(why));
        }
        if kind.version != target.kind.version && kind.strategy.conversion_webhook().is_some() {
            let (old, new) = (target.kind.api_version(), kind.api_version());
            let why =
                format!("a webhook must convert objects of {old} to {new}: use the same version for both objects");
            return Err(Rejection::invalid(why));
        }
        let sent = metadata_mut(&mut value);
        if sent.text("/resourceVersion").is_empty() {
            sent.set("resourceVersion", stored.revision().to_string());
        }
        let mut target = RequestTarget { kind, ..target.clone() };
        if is_status {
            if !target.kind.splits_status() {
                let why = format!("the definition of {} has no subresource status", target.kind.kind);
                return Err(Rejection::invalid(why));
            }
            target.subresource = Subresource::Status;
        }
        self.write(Sample::of(value), Some(target), WriteOptions { dry_run: true, ..WriteOptions::default() })
    }

    fn write(
        &self,
        sample: Sample,
        update: Option<RequestTarget>,
        options: WriteOptions,
    ) -> Result<CheckedObject, Rejection> {
        let (written, warnings) = self.written(sample, update, &options)?;
        let object = serde_json::to_value(written.object.typed());
        let object = object.map_err(|error| Rejection::invalid(format!("the object has no JSON form: {error}")))?;
        Ok(CheckedObject { object, warnings })
    }

    fn written(
        &self,
        sample: Sample,
        update: Option<RequestTarget>,
        options: &WriteOptions,
    ) -> Result<(Written, Vec<String>), Rejection> {
        let kind = self.kind(&sample.value)?;
        let decoded = decode::object(&kind, &sample.body, FieldValidation::Strict)?;
        let requester = Requester::new(User::admin());
        let by = Writer::new(options, MANAGER, self.registry.clock.now_text()).with_requester(requester.clone());
        let written = match update {
            Some(target) => self.registry.update(&target, &UpdateSource::Put(&decoded.value), &by)?,
            None => {
                let target = target(&kind, &sample.value);
                let namespace = self.add_namespace(&target.namespace)?;
                let created = self.registry.create(&target, decoded.value, &by);
                if let Some(namespace) = namespace {
                    self.remove(&NAMESPACES.into(), &namespace);
                }
                created?
            }
        };
        let mut warnings: Vec<String> = kind.strategy.deprecation().map(Into::into).into_iter().collect();
        warnings.extend(requester.take_warnings());
        Ok((written, warnings))
    }

    /// Returns the kind of `object`. If the kind has a conversion webhook, the returned kind stores objects in their
    /// own version, because the checker calls no webhooks.
    fn kind(&self, object: &Json) -> Result<Arc<Kind>, Rejection> {
        let (api_version, kind) = (object.text("/apiVersion"), object.text("/kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let kinds = self.registry.kinds();
        let Some(kind) = kinds.kind(group, version, kind) else {
            return Err(Rejection::invalid(format!(
                "no kind {kind:?} is served in version {api_version:?}; is its definition missing?"
            )));
        };
        Ok(match kind.strategy.without_conversions() {
            Some(strategy) => Arc::new(Kind { strategy, ..Kind::clone(kind) }),
            None => kind.clone(),
        })
    }

    fn add_namespace(&self, name: &str) -> Result<Option<String>, Rejection> {
        let kinds = self.registry.kinds();
        let Some(kind) = kinds.kind("", "v1", "Namespace") else { return Ok(None) };
        if name.is_empty() || self.registry.db.get(NAMESPACES, name).is_some() {
            return Ok(None);
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let options = WriteOptions::default();
        let by = Writer::new(&options, MANAGER, self.registry.clock.now_text());
        self.registry.create(&RequestTarget::new(kind.clone(), "", ""), namespace, &by)?;
        Ok(Some(name.into()))
    }

    fn remove(&self, resource: &ResourceKey, key: &str) {
        if let Some(stored) = self.registry.db.get(resource, key) {
            // The removal cannot fail, because no other thread writes to the store.
            drop(self.registry.db.remove(resource, key, stored.revision()));
        }
    }
}

fn target(kind: &Arc<Kind>, object: &Json) -> RequestTarget {
    let namespace = match metadata::namespace(object) {
        _ if !kind.is_namespaced() => "",
        "" => "default",
        namespace => namespace,
    };
    RequestTarget::new(kind.clone(), namespace, "")
}

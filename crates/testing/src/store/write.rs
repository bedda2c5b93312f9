//! Creates, updates, patches and deletes objects according to kube-apiserver's rules.

use jiff::Timestamp;
use pintle_meta::{ApiError, DeleteOptions, ObjectKey, Patch, Time, WriteOptions};
use serde_json::{Map, Value, json};

use super::{Entry, Store, Stored, errors, key_of, meta};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Main,
    Status,
}

const SERVER_FIELDS: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

impl Store {
    pub(crate) fn get(&self, key: &ObjectKey) -> Result<Value, ApiError> {
        self.check_key(key)?;
        self.find(key).cloned()
    }

    pub(crate) fn create(&mut self, mut new: Value, options: &WriteOptions, now: Timestamp) -> Result<Value, ApiError> {
        if meta(&new, "name").is_empty() && !meta(&new, "generateName").is_empty() {
            new["metadata"]["name"] = format!("{}{}", meta(&new, "generateName"), self.suffix()).into();
        }
        let key = key_of(&new);
        if key.name().is_empty() {
            let why = "Required value: name or generateName is required";
            return Err(errors::invalid(&self.resource, "", "metadata.name", "FieldValueRequired", why));
        }
        self.check_key(&key)?;
        if !matches!(meta(&new, "resourceVersion"), "" | "0") {
            return Err(errors::unreasoned("resourceVersion should not be set on objects to be created"));
        }
        if let Some(old) = self.object(&key) {
            return Err(errors::already_exists(&self.resource, key.name(), is_terminating(old)));
        }
        for field in SERVER_FIELDS.iter().chain(&["managedFields"]) {
            remove(&mut new["metadata"], field);
        }
        remove(&mut new, "status");
        self.types(&mut new);
        self.fill(&mut new, now);
        Ok(if options.dry_run { new } else { self.commit(key, new) })
    }

    /// Creates or replaces an object. Stores the object with all its fields, except for a new resourceVersion. Sets the
    /// uid, the creation timestamp and the generation if they are missing.
    pub(crate) fn put(&mut self, mut new: Value, now: Timestamp) -> Result<Value, ApiError> {
        let key = key_of(&new);
        self.check_key(&key)?;
        self.types(&mut new);
        if let Some(old) = self.object(&key) {
            for field in ["uid", "creationTimestamp"] {
                if new["metadata"][field].is_null() {
                    new["metadata"][field] = old["metadata"][field].clone();
                }
            }
            let generation = &new["metadata"]["generation"];
            if generation.is_null() || *generation == old["metadata"]["generation"] {
                new["metadata"]["generation"] = generation_after(old, &new);
            }
        }
        self.fill(&mut new, now);
        Ok(self.commit(key, new))
    }

    pub(crate) fn update(&mut self, new: Value, edit: Edit, options: &WriteOptions) -> Result<Value, ApiError> {
        let key = key_of(&new);
        self.check_key(&key)?;
        let old = self.find(&key)?.clone();
        self.replace(key, &old, new, edit, options.dry_run)
    }

    pub(crate) fn patch(
        &mut self,
        key: &ObjectKey,
        patch: &Patch,
        options: &WriteOptions,
        now: Timestamp,
    ) -> Result<Value, ApiError> {
        self.check_key(key)?;
        let body = match patch {
            Patch::Merge(body) => body,
            Patch::Apply(body) => {
                self.check_apply(body, options)?;
                body
            }
            Patch::Json(_) | Patch::Strategic(_) => return Err(unknown_patch(patch)),
        };
        let old = match (self.object(key), patch) {
            (Some(old), _) => old.clone(),
            (None, Patch::Apply(_)) => {
                let mut new = body.clone();
                name(&mut new, key);
                remove(&mut new["metadata"], "resourceVersion");
                return self.create(new, options, now);
            }
            (None, _) => return Err(errors::not_found(&self.resource, key.name())),
        };
        let mut new = old.clone();
        merge(&mut new, body);
        if !new["metadata"].is_object() || key_of(&new) != *key {
            return Err(errors::bad_request(format!("the patch changes the name or namespace of {key}")));
        }
        self.replace(key.clone(), &old, new, Edit::Main, options.dry_run)
    }

    pub(crate) fn delete(&mut self, key: &ObjectKey, options: &DeleteOptions, now: Timestamp) -> Result<(), ApiError> {
        self.check_key(key)?;
        let old = self.find(key)?.clone();
        if let Some(expected) = &options.preconditions {
            let conditions = [
                ("UID", &expected.uid, meta(&old, "uid"), "deleted and then recreated"),
                ("ResourceVersion", &expected.resource_version, meta(&old, "resourceVersion"), "modified"),
            ];
            for (what, expected, actual, fate) in conditions {
                if let Some(expected) = expected.as_ref().filter(|expected| *expected != actual) {
                    let why = format!(
                        "the {what} in the precondition ({expected}) does not match the {what} in record ({actual}). \
                         The object might have been {fate}"
                    );
                    return Err(errors::conflict(&self.resource, key.name(), &why));
                }
            }
        }
        if options.dry_run {
            return Ok(());
        }
        if finalizers(&old).is_empty() {
            self.remove(key);
        } else if !is_terminating(&old) {
            let mut new = old;
            let metadata = &mut new["metadata"];
            metadata["deletionTimestamp"] = Time(now).to_string().into();
            metadata["deletionGracePeriodSeconds"] = 0.into();
            if let Some(generation) = metadata["generation"].as_i64() {
                metadata["generation"] = (generation + 1).into();
            }
            self.commit(key.clone(), new);
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) -> bool {
        let Some(before) = self.objects.remove(key) else { return false };
        self.revision += 1;
        self.log.push(Entry::Change { revision: self.revision, key: key.clone(), before: Some(before), after: None });
        true
    }

    /// Updates `old` with the fields of the new object that `edit` selects.
    fn replace(
        &mut self,
        key: ObjectKey,
        old: &Value,
        mut new: Value,
        edit: Edit,
        dry_run: bool,
    ) -> Result<Value, ApiError> {
        let (uid, version) = (meta(&new, "uid"), meta(&new, "resourceVersion"));
        if !uid.is_empty() && uid != meta(old, "uid") {
            let actual = meta(old, "uid");
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
            return Err(errors::conflict(&self.resource, key.name(), &why));
        }
        if !matches!(version, "" | "0") && version != meta(old, "resourceVersion") {
            return Err(errors::modified(&self.resource, key.name()));
        }
        if edit == Edit::Status {
            let status = new["status"].take();
            new = old.clone();
            set(&mut new, "status", status);
        } else {
            for field in SERVER_FIELDS.iter().chain(&["resourceVersion"]) {
                set(&mut new["metadata"], field, old["metadata"][field].clone());
            }
            if new["metadata"]["managedFields"].is_null() {
                set(&mut new["metadata"], "managedFields", old["metadata"]["managedFields"].clone());
            }
            set(&mut new, "status", old["status"].clone());
            self.types(&mut new);
            self.check_finalizers(&key, old, &new)?;
            let generation = generation_after(old, &new);
            set(&mut new["metadata"], "generation", generation);
        }
        if dry_run || new == *old {
            return Ok(new);
        }
        if is_terminating(&new) && finalizers(&new).is_empty() {
            self.remove(&key);
            return Ok(new);
        }
        Ok(self.commit(key, new))
    }

    fn commit(&mut self, key: ObjectKey, mut new: Value) -> Value {
        self.revision += 1;
        new["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let after = Stored::new(new.clone());
        let before = self.objects.insert(key.clone(), after.clone());
        self.log.push(Entry::Change { revision: self.revision, key, before, after: Some(after) });
        new
    }

    fn find(&self, key: &ObjectKey) -> Result<&Value, ApiError> {
        self.object(key).ok_or_else(|| errors::not_found(&self.resource, key.name()))
    }

    fn fill(&self, new: &mut Value, now: Timestamp) {
        let has_spec = !new["spec"].is_null();
        let uid = format!("uid-{}-{}", self.resource.plural, self.revision + 1);
        let metadata = &mut new["metadata"];
        if metadata["uid"].as_str().is_none_or(str::is_empty) {
            metadata["uid"] = uid.into();
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = Time(now).to_string().into();
        }
        if has_spec && metadata["generation"].is_null() {
            metadata["generation"] = 1.into();
        }
        if metadata["generation"].is_null() {
            remove(metadata, "generation");
        }
    }

    /// Adds `apiVersion` and `kind` if they are missing, as a server does in responses.
    fn types(&self, object: &mut Value) {
        for (field, text) in
            [("apiVersion", self.resource.group_version.to_string()), ("kind", self.resource.kind.clone())]
        {
            if object[field].as_str().is_none_or(str::is_empty) {
                object[field] = text.into();
            }
        }
    }

    fn check_finalizers(&self, key: &ObjectKey, old: &Value, new: &Value) -> Result<(), ApiError> {
        let before = finalizers(old);
        let mut added = finalizers(new).iter().filter(|finalizer| !before.contains(finalizer));
        match added.next() {
            Some(added) if is_terminating(old) => {
                let why = format!(
                    "Forbidden: no new finalizers can be added if the object is being deleted, \
                     found new finalizers []string{{{added}}}"
                );
                let field = "metadata.finalizers";
                Err(errors::invalid(&self.resource, key.name(), field, "FieldValueForbidden", &why))
            }
            _ => Ok(()),
        }
    }

    fn check_apply(&self, body: &Value, options: &WriteOptions) -> Result<(), ApiError> {
        let text = |field: &str| body[field].as_str().unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if version != self.resource.group_version.to_string() || kind != self.resource.kind {
            return Err(errors::bad_request(format!("invalid object type: {version}, Kind={kind}")));
        }
        if options.field_manager.is_empty() {
            let options = pintle_meta::ApiResource::new("meta.k8s.io/v1", "PatchOptions", "", self.resource.scope);
            let why = "Required value: is required for apply patch";
            return Err(errors::invalid(&options, "", "fieldManager", "FieldValueRequired", why));
        }
        Ok(())
    }

    /// Returns the five characters that are appended to `generateName`. The suffixes differ for different revisions.
    fn suffix(&self) -> String {
        const CHARACTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let base = CHARACTERS.len() as u64;
        let digit = |place: u32| CHARACTERS[((self.revision + 1) / base.pow(place) % base) as usize];
        (0..5).rev().map(|place| char::from(digit(place))).collect()
    }
}

/// Returns the generation of `new`, which replaces `old`. The generation is incremented if the objects differ
/// outside of the metadata and the status.
fn generation_after(old: &Value, new: &Value) -> Value {
    let generation = &old["metadata"]["generation"];
    let Some(number) = generation.as_i64() else { return generation.clone() };
    let desired = |object: &Value| {
        let mut object = object.clone();
        ["metadata", "status"].iter().for_each(|member| remove(&mut object, member));
        object
    };
    if desired(old) == desired(new) { number.into() } else { (number + 1).into() }
}

fn is_terminating(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn finalizers(object: &Value) -> &[Value] {
    object["metadata"]["finalizers"].as_array().map_or(&[], Vec::as_slice)
}

fn set(object: &mut Value, member: &str, value: Value) {
    match value {
        Value::Null => remove(object, member),
        value => object[member] = value,
    }
}

fn remove(object: &mut Value, member: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(member);
    }
}

fn name(object: &mut Value, key: &ObjectKey) {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["name"] = key.name().into();
    if let Some(namespace) = key.namespace() {
        object["metadata"]["namespace"] = namespace.into();
    }
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (member, value) in members {
        match value {
            Value::Null => remove(target, member),
            value => merge(&mut target[member], value),
        }
    }
}

fn unknown_patch(patch: &Patch) -> ApiError {
    let message = format!(
        "this store does not support {}: use a merge patch, an apply patch, or a real API server",
        patch.content_type()
    );
    pintle_meta::Status::failure(415, pintle_meta::Reason::UnsupportedMediaType, message).into()
}

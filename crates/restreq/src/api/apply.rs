//! Bodies of writes, and server-side apply.

use std::borrow::Cow;

use pintle_meta::{ApiError, InvalidKey, Object, ObjectKey, Patch, PostOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Api;
use super::options::with_post_options;
use super::representation::Representation;
use crate::error::InvalidRequest;
use crate::{Error, Request, extract_managed_fields};

impl<T: Object + Serialize + DeserializeOwned> Api<T> {
    /// Server-side apply: all that the object holds is to be so, and belongs to the options' field manager from now on; what that
    /// manager applied before and the object no longer holds is given up. Creates the object if it is not there.
    ///
    /// The kind is filled in where the type does not have it. A `resourceVersion` or `uid` in the metadata is a precondition. What an
    /// object read from a server holds is not what a program means to own: begin with an own one, or with what
    /// [`applied`](Self::applied) gives. For an object in part, [`patch`](Self::patch) with [`Patch::Apply`].
    ///
    /// # Errors
    ///
    /// No field manager, without I/O. `Conflict` if another manager owns a field and wants it otherwise, unless the options force it;
    /// or however else a request fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, ObjectMeta, PostOptions};
    /// use pintle_restreq::Api;
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct Website { metadata: ObjectMeta, spec: serde_json::Value }
    /// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// async fn publish(websites: &Api<Website>) -> Result<Website, ApiError> {
    ///     let blog = Website { metadata: ObjectMeta::new("team-a", "blog"), spec: serde_json::json!({"pages": 3}) };
    ///     let options = PostOptions { field_manager: "publisher".into(), force: true, ..PostOptions::default() };
    ///     websites.apply(&blog, &options).await
    /// }
    /// ```
    pub async fn apply(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        Ok(self.apply_request(object, options, false).object().await?)
    }

    /// [`apply`](Self::apply) for the status of an object that is there.
    ///
    /// # Errors
    ///
    /// As [`apply`](Self::apply), or not found.
    pub async fn apply_status(&self, object: &T, options: &PostOptions) -> Result<T, ApiError> {
        Ok(self.apply_request(object, options, true).object().await?)
    }

    fn apply_request(&self, object: &T, options: &PostOptions, status: bool) -> Request {
        let patch = Patch::Apply(Value::Null);
        let mut request = self.on_object(self.patch_request(&patch), object.key());
        if status {
            request = request.subresource(["status"]);
        }
        if options.field_manager.is_empty() {
            let why =
                "an apply needs a field manager, to which the applied fields belong; set PostOptions::field_manager";
            request = request.keep(InvalidRequest::Mismatch(why.into()));
        }
        self.with_object(request, object, options)
    }

    /// The body of a write. A type that does not say what kind it is, as most Rust types do not, is told it here.
    pub(super) fn with_object(&self, request: Request, object: &T, options: &PostOptions) -> Request {
        let request = with_post_options(request, options);
        if self.representation != Representation::Whole {
            return request.keep(InvalidRequest::Mismatch(format!(
                "the handle knows of {} their metadata alone, and writing them would empty them; patch them instead",
                self.resource
            )));
        }
        match serde_json::to_value(object) {
            Ok(mut value) => {
                self.name_kind(&mut value);
                request.json(&value)
            }
            Err(error) => request.keep(InvalidRequest::Encode { what: "the object", message: error.to_string() }),
        }
    }
}

impl<T> Api<T> {
    /// What a manager has applied of an object and still owns: with apiVersion, kind, name and namespace the beginning of its next
    /// [`apply`](Self::apply). client-go's extract. `None` if it has applied nothing. See [`extract_managed_fields`].
    ///
    /// # Errors
    ///
    /// Not found, or however else a request fails.
    pub async fn applied(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        field_manager: &str,
    ) -> Result<Option<Value>, ApiError> {
        let request = self.on_object(self.client.get(), key);
        let line = request.line();
        let mut object: Value = request.object().await?;
        self.name_kind(&mut object);
        let unreadable = |message: String| Error::Decode { request: line, message: message.into() };
        Ok(extract_managed_fields(&object, field_manager, "").map_err(|error| unreadable(error.to_string()))?)
    }

    /// The body of a patch. An apply has to name its kind.
    pub(super) fn patch_body<'a>(&self, patch: &'a Patch) -> Cow<'a, Value> {
        match patch {
            Patch::Apply(body) => {
                let mut body = body.clone();
                self.name_kind(&mut body);
                Cow::Owned(body)
            }
            other => Cow::Borrowed(other.body()),
        }
    }

    /// Fills in what kind of object it is, where it does not say so.
    fn name_kind(&self, object: &mut Value) {
        let Some(members) = object.as_object_mut() else { return };
        let names = |members: &Map<_, Value>, key: &str| {
            members.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
        };
        if !names(members, "kind") {
            members.insert("kind".into(), self.resource.kind.clone().into());
        }
        if !names(members, "apiVersion") {
            members.insert("apiVersion".into(), self.resource.group_version.to_string().into());
        }
    }
}

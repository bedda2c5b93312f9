//! Server-side apply, and the bodies of write requests.

use std::borrow::Cow;

use pintle_meta::{ApiError, InvalidKey, Object, ObjectKey, Patch, WriteOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Api;
use super::options::with_write_options;
use super::representation::Representation;
use crate::error::{InvalidRequest, unreadable};
use crate::managed_fields::extract_managed_fields;
use crate::request::Request;

impl<T: Object + Serialize + DeserializeOwned> Api<T> {
    /// Creates or updates an object with server-side apply.
    ///
    /// The field manager in `options` becomes an owner of each field in `object`. If `object` lacks a field that this
    /// manager applied earlier, the manager no longer owns the field. The server removes a field that has no owners
    /// left.
    ///
    /// If the type does not serialize `apiVersion` and `kind`, this method adds them. A `resourceVersion` or a `uid` in
    /// the metadata is used as a precondition.
    ///
    /// Do not apply an object that was read from the server, because it also contains the fields of other managers.
    /// Start with a new object or with the result of [`applied`](Self::applied) instead. To apply a partial object, use
    /// [`patch`](Self::patch) with [`Patch::Apply`].
    ///
    /// # Errors
    ///
    /// Returns an error without sending a request if the field manager in `options` is empty. Returns `Conflict` if
    /// another manager owns a field and `object` has a different value for it. To take over fields of other managers,
    /// set `force` in `options`. Returns another error if the request fails for a different reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, ObjectMeta, WriteOptions};
    /// use pintle_restreq::Api;
    ///
    /// #[derive(serde::Deserialize, serde::Serialize)]
    /// struct Website { metadata: ObjectMeta, spec: serde_json::Value }
    /// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// async fn publish(websites: &Api<Website>) -> Result<Website, ApiError> {
    ///     let blog = Website { metadata: ObjectMeta::new("team-a", "blog"), spec: serde_json::json!({"pages": 3}) };
    ///     let options = WriteOptions { field_manager: "publisher".into(), force: true, ..WriteOptions::default() };
    ///     websites.apply(&blog, &options).await
    /// }
    /// ```
    pub async fn apply(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        self.apply_request(object, options, false).object().await
    }

    /// Applies only the status of an existing object, like [`apply`](Self::apply).
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the object does not exist, and otherwise the same errors as [`apply`](Self::apply).
    pub async fn apply_status(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        self.apply_request(object, options, true).object().await
    }

    fn apply_request(&self, object: &T, options: &WriteOptions, status: bool) -> Request {
        let patch = Patch::Apply(Value::Null);
        let mut request = self.on_object(self.patch_request(&patch), object.key());
        if status {
            request = request.subresource(["status"]);
        }
        if options.field_manager.is_empty() {
            let why =
                "an apply needs a field manager, which will own the applied fields; set WriteOptions::field_manager";
            request = request.keep(InvalidRequest::Mismatch(why.into()));
        }
        self.with_object(request, object, options)
    }

    /// Sets the body of a create or update request. The body also gets `apiVersion` and `kind`, because most Rust types
    /// do not serialize these fields.
    pub(super) fn with_object(&self, request: Request, object: &T, options: &WriteOptions) -> Request {
        let request = with_write_options(request, options);
        if self.representation != Representation::Whole {
            return request.keep(InvalidRequest::Mismatch(format!(
                "this `Api` has only the metadata of {}, so the write would delete all other fields; send a patch instead",
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
    /// Returns the fields that a manager applied and still owns, like client-go's `Extract`. Returns `None` if the
    /// manager has not applied any fields. The result includes `apiVersion`, `kind`, `name` and `namespace`, so that
    /// the caller can modify the result and apply it again. See [`extract_managed_fields`].
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the object does not exist, or another error if the request fails.
    pub async fn applied(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        field_manager: &str,
    ) -> Result<Option<Value>, ApiError> {
        let request = self.on_object(self.client.get(), key);
        let line = request.line();
        let mut object: Value = request.object().await?;
        self.name_kind(&mut object);
        extract_managed_fields(&object, field_manager, "").map_err(|error| unreadable(&line, error))
    }

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

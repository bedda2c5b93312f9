//! The clients of a collection. Each client logs its requests and can inject faults into them.

use std::future::pending;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use pintle_meta::{
    ApiError, ApiResource, DeleteOptions, ListOptions, ListWatch, NamespaceScope, Object, ObjectApi, ObjectKey, Patch,
    Resource, WatchOptions, WriteOptions,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::events::{Events, Page};
use crate::faults::{FaultScript, Outcome};
use crate::request::{Call, RecordedRequest};
use crate::shared::{Shared, decode, encode};
use crate::store::{Edit, Store, key_of};

/// A client of a [`Collection`](crate::Collection), with a name and a fault script. Clones share the name and the
/// script.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, ApiResource, DynamicObject, ObjectApi, ObjectKey, WriteOptions, Scope};
/// use pintle_testing::{Collection, CollectionConfig, Outcome};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), ApiError> {
/// let resource = ApiResource::new("v1", "ConfigMap", "configmaps", Scope::Namespaced);
/// let maps = Collection::<DynamicObject>::dynamic(resource, CollectionConfig::default());
/// maps.put_raw(json!({"metadata": {"namespace": "ns", "name": "a"}, "data": {"key": "old"}}));
///
/// let (one, other) = (maps.client("one"), maps.client("other"));
/// one.faults().next([Outcome::AnswerFails(ApiError::transport("the connection broke"))]);
///
/// let key = ObjectKey::new("ns", "a");
/// let mut map = other.get(&key).await?;
/// map.data["data"]["key"] = "new".into();
/// assert!(one.update(&map, &WriteOptions::default()).await.is_err());
/// assert_eq!(other.get(&key).await?.data["data"]["key"], "new", "it was done all the same");
///
/// let requests: Vec<_> = maps.requests().iter().map(ToString::to_string).collect();
/// assert_eq!(requests, ["other GET ns/a", "one UPDATE ns/a", "other GET ns/a"]);
/// # Ok(())
/// # }
/// ```
pub struct Client<T> {
    shared: Arc<Shared>,
    name: String,
    namespace: Option<String>,
    faults: FaultScript,
    object: PhantomData<fn() -> T>,
}

impl<T> Client<T> {
    pub(crate) fn new(shared: Arc<Shared>, name: &str, faults: FaultScript) -> Self {
        Self { shared, name: name.into(), namespace: None, faults, object: PhantomData }
    }

    /// Returns this client's fault script.
    pub fn faults(&self) -> &FaultScript {
        &self.faults
    }

    async fn send<R>(
        &self,
        call: Call,
        act: impl FnOnce(&mut Store, Timestamp, Option<&Outcome>) -> Result<R, ApiError>,
    ) -> Result<R, ApiError> {
        let shared = &self.shared;
        let request = RecordedRequest { client: self.name.clone(), call };
        shared.with(|store, _| store.requests.push(request.clone()));
        let mut fault = self.faults.meet(&request);
        if fault.is_none() && !self.faults.is_same(&shared.faults) {
            fault = shared.faults.meet(&request);
        }
        match fault {
            Some(Outcome::Lost) => return pending().await,
            Some(Outcome::Fails(error)) => return Err(error),
            _ => {}
        }
        let answer = shared.with(|store, now| act(store, now, fault.as_ref()));
        match fault {
            Some(Outcome::AnswerFails(error)) => return Err(error),
            Some(Outcome::AnswerLost) => return pending().await,
            Some(Outcome::AnswerSlow(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
        answer
    }
}

impl<T: Resource<Scope = NamespaceScope>> Client<T> {
    /// Returns a clone of this client that lists and watches only one namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), ..self.clone() }
    }
}

impl<T: 'static> ListWatch for Client<T> {
    type Object = T;
    type Page = Page;
    type Events = Events;

    fn api_resource(&self) -> ApiResource {
        self.shared.with(|store, _| store.resource.clone())
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    async fn list(&self, options: &ListOptions) -> Result<Page, ApiError> {
        self.send(Call::List { options: options.clone() }, |store, _, fault| {
            let breaks = match fault {
                Some(Outcome::Breaks { after, how }) => Some((*after, how.clone())),
                _ => None,
            };
            Ok(Page::new(store.list(self.namespace.as_deref(), options)?, breaks))
        })
        .await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Events, ApiError> {
        self.send(Call::Watch { options: options.clone() }, |store, _, fault| {
            let id = store.watch(self.namespace.as_deref(), options, fault)?;
            Ok(Events::new(self.shared.clone(), self.faults.clone(), id))
        })
        .await
    }
}

impl<T: Object + Serialize + DeserializeOwned> ObjectApi<T> for Client<T> {
    async fn get(&self, key: &ObjectKey) -> Result<T, ApiError> {
        self.send(Call::Get { key: key.clone() }, |store, _, _| store.get(key)).await.and_then(decode)
    }

    async fn create(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let object = encode(object)?;
        let call = Call::Create { key: key_of(&object), object: object.clone(), options: options.clone() };
        self.send(call, |store, now, _| store.create(object, options, now)).await.and_then(decode)
    }

    async fn update(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let object = encode(object)?;
        let call = Call::Update { key: key_of(&object), object: object.clone(), options: options.clone() };
        self.send(call, |store, _, _| store.update(object, Edit::Main, options)).await.and_then(decode)
    }

    async fn update_status(&self, object: &T, options: &WriteOptions) -> Result<T, ApiError> {
        let object = encode(object)?;
        let call = Call::UpdateStatus { key: key_of(&object), object: object.clone(), options: options.clone() };
        self.send(call, |store, _, _| store.update(object, Edit::Status, options)).await.and_then(decode)
    }

    async fn patch(&self, key: &ObjectKey, patch: &Patch, options: &WriteOptions) -> Result<T, ApiError> {
        let call = Call::Patch { key: key.clone(), patch: patch.clone(), options: options.clone() };
        self.send(call, |store, now, _| store.patch(key, patch, options, now)).await.and_then(decode)
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<(), ApiError> {
        let call = Call::Delete { key: key.clone(), options: options.clone() };
        self.send(call, |store, now, _| store.delete(key, options, now)).await
    }
}

impl<T> Clone for Client<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            faults: self.faults.clone(),
            object: PhantomData,
        }
    }
}

pintle_meta::debug_struct!(Client<T> { name, faults, .. });

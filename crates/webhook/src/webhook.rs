//! Admission webhooks, each with a handler and with rules that select the requests.

use std::collections::BTreeSet;
use std::time::Duration;

use pintle_meta::__private::is_dns_label;
use pintle_meta::{ApiResource, LabelSelectorSpec, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admission::Admission;
use crate::answer::{Allowed, Denial};
use crate::failure_policy::FailurePolicy;
use crate::handler::{self, Handle};
use crate::review::Operation;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WebhookType {
    Validating,
    Mutating,
}

/// An admission webhook: an async handler, and rules that select the requests for which the API server calls the
/// webhook.
///
/// Pass the webhook to [`Webhooks::add`](crate::Webhooks::add). By default, the API server calls a webhook for
/// creations and updates with a timeout of 10 s, and rejects a request if it cannot call the webhook.
///
/// # Examples
///
/// ```
/// use pintle_meta::ObjectMeta;
/// use pintle_webhook::{Admission, Allowed, Denial, FailurePolicy, Operation, Webhook};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize)]
/// struct Website {
///     metadata: ObjectMeta,
///     domain: String,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// async fn keep(request: Admission<Website>) -> Result<Allowed, Denial> {
///     match request.object.metadata.labels.contains_key("protected") {
///         true => Err(Denial::new("remove the label \"protected\" first")),
///         false => Ok(Allowed::from(()).warn("the domain will be free for others")),
///     }
/// }
///
/// let webhook = Webhook::validate(keep).on([Operation::Delete]).failure_policy(FailurePolicy::Ignore);
/// assert_eq!(webhook.path(), "/validate/example.com/v1/websites");
/// ```
#[derive(Clone)]
#[must_use = "a webhook does nothing until it is added to `Webhooks`"]
pub struct Webhook {
    pub(crate) resource: ApiResource,
    pub(crate) webhook_type: WebhookType,
    pub(crate) handle: Handle,
    pub(crate) name: Option<String>,
    pub(crate) operations: BTreeSet<Operation>,
    pub(crate) subresource: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) has_side_effects: bool,
    pub(crate) is_reinvoked: bool,
    pub(crate) namespaces: Option<LabelSelectorSpec>,
    pub(crate) objects: Option<LabelSelectorSpec>,
    pub(crate) conditions: Vec<(String, String)>,
}

impl Webhook {
    /// Creates a webhook that allows or rejects requests for `T`. The handler returns `()` or an [`Allowed`].
    pub fn validate<T, F, Fut, O>(handler: F) -> Self
    where
        T: Resource + DeserializeOwned,
        F: Fn(Admission<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, Denial>> + Send,
        O: Into<Allowed>,
    {
        Self::validate_resource(T::api_resource(), handler)
    }

    /// Creates a validating webhook for a resource that is not known at compile time, like
    /// [`validate`](Self::validate). `T` can be a [`DynamicObject`](pintle_meta::DynamicObject).
    pub fn validate_resource<T, F, Fut, O>(resource: ApiResource, handler: F) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        F: Fn(Admission<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, Denial>> + Send,
        O: Into<Allowed>,
    {
        Self::new(resource, WebhookType::Validating, handler::validating(handler))
    }

    /// Creates a mutating webhook for `T`. The handler returns the changed object, or an [`Allowed`] with the changed
    /// object.
    ///
    /// The API server receives the changes as a JSON patch. If the handler does not change the object, the response
    /// contains no patch. An object keeps fields that `T` does not declare, even inside list elements. For this
    /// purpose, the following rules match the elements of a returned list with the elements of the original list:
    ///
    /// 1. If a field identifies the elements, elements with the same value of this field match. The identifying field
    ///    is the first of `name`, `key`, `type`, `mountPath`, `containerPort`, `ip` and `uid` that has a unique value
    ///    in each element. If no field identifies the elements, equal elements match.
    /// 2. If the length of the list has not changed, unmatched elements at the same position match. In a list whose
    ///    elements have an identifying field, the position matches only elements whose other declared fields are equal.
    ///    An element therefore keeps its undeclared fields if a handler changes only its identifying field. A new
    ///    element that replaces an old element does not inherit undeclared fields, such as the `securityContext` of a
    ///    container.
    ///
    /// Unmatched elements of the returned list are new. Unmatched elements of the original list are removed, with their
    /// undeclared fields.
    ///
    /// If decoding reorders a list, for example into a `BTreeSet`, the rules can match wrong elements, and the patch
    /// then replaces the whole list. If decoding the patched object still does not result in the returned object, the
    /// request is denied with code 500.
    ///
    /// The API server calls mutating webhooks first, then validates the object, and then calls validating webhooks.
    pub fn mutate<T, F, Fut, O>(handler: F) -> Self
    where
        T: Resource + DeserializeOwned + Serialize,
        F: Fn(Admission<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, Denial>> + Send,
        O: Into<Allowed<T>>,
    {
        Self::mutate_resource(T::api_resource(), handler)
    }

    /// Creates a mutating webhook for a resource that is not known at compile time, like [`mutate`](Self::mutate).
    pub fn mutate_resource<T, F, Fut, O>(resource: ApiResource, handler: F) -> Self
    where
        T: DeserializeOwned + Serialize + Send + 'static,
        F: Fn(Admission<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, Denial>> + Send,
        O: Into<Allowed<T>>,
    {
        Self::new(resource, WebhookType::Mutating, handler::mutating(handler))
    }

    fn new(resource: ApiResource, webhook_type: WebhookType, handle: Handle) -> Self {
        Self {
            resource,
            webhook_type,
            handle,
            name: None,
            operations: [Operation::Create, Operation::Update].into(),
            subresource: None,
            timeout: Duration::from_secs(10),
            failure_policy: FailurePolicy::default(),
            has_side_effects: false,
            is_reinvoked: false,
            namespaces: None,
            objects: None,
            conditions: Vec::new(),
        }
    }

    /// Sets the operations for which the API server calls the webhook. By default, the API server calls a webhook for
    /// creations and updates.
    ///
    /// The handler cannot check the deletion of a stored object that cannot be decoded as `T`. For such an object, the
    /// [`FailurePolicy`] determines whether the API server rejects the deletion.
    ///
    /// # Panics
    ///
    /// Panics if `operations` is empty, or if `operations` contains deletions and the webhook is mutating. For a
    /// deletion, the API server does not accept object changes from a webhook.
    pub fn on(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.operations = operations.into_iter().collect();
        assert!(!self.operations.is_empty(), "a webhook for {} needs at least one operation", self.resource);
        assert!(
            !(self.is_mutating() && self.operations.contains(&Operation::Delete)),
            "a mutating webhook for {} cannot handle deletions; use a validating one",
            self.resource
        );
        self
    }

    /// Sets the webhook's name. Webhooks for the same resource need different names. The name must be a DNS label, such
    /// as `quota`, and becomes part of the webhook's path.
    ///
    /// # Panics
    ///
    /// Panics if the name is not a DNS label.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        assert!(is_dns_label(&name), "{name:?} is no name of a webhook: use up to 63 of a-z, 0-9 and -");
        self.name = Some(name);
        self
    }

    /// Calls the webhook for requests to a subresource, such as `status`, instead of requests to the object itself. `T`
    /// is the Rust type of the subresource.
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Sets how the API server reacts if it cannot call the webhook or receives no valid response. The default policy
    /// is [`FailurePolicy::Fail`].
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = policy;
        self
    }

    /// Sets the timeout for the handler and for the call by the API server, which rounds the timeout up to whole
    /// seconds. The default timeout is 10 s.
    ///
    /// # Panics
    ///
    /// Panics if `timeout` is 0 or more than 30 s, because the API server would reject such a timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        assert!(
            !timeout.is_zero() && timeout <= Duration::from_secs(30),
            "the timeout of a webhook for {} must be above 0 and at most 30 s",
            self.resource
        );
        self.timeout = timeout;
        self
    }

    /// Declares that the handler has side effects unless the request is a dry run. By default, the registration
    /// declares that the handler has no side effects.
    pub fn has_side_effects(mut self) -> Self {
        self.has_side_effects = true;
        self
    }

    /// Makes the API server call a mutating webhook again if a later webhook has changed the object. The handler must
    /// be idempotent: it must not change an object that it has already changed.
    ///
    /// # Panics
    ///
    /// Panics if the webhook is a validating webhook.
    pub fn reinvoke(mut self) -> Self {
        assert!(self.is_mutating(), "a validating webhook for {} is never called again", self.resource);
        self.is_reinvoked = true;
        self
    }

    /// Calls the webhook only for objects in namespaces whose labels match `selector`. Cluster-scoped objects always
    /// match.
    pub fn namespaces(mut self, selector: LabelSelectorSpec) -> Self {
        self.namespaces = Some(selector);
        self
    }

    /// Calls the webhook only for objects whose labels match `selector`. For an update, the labels of either the old or
    /// the new object must match.
    pub fn objects(mut self, selector: LabelSelectorSpec) -> Self {
        self.objects = Some(selector);
        self
    }

    /// Calls the webhook only if the CEL expression `expression` is true. `name` identifies the expression in the
    /// webhook configuration. The API server evaluates the expression before calling the webhook.
    pub fn condition(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.conditions.push((name.into(), expression.into()));
        self
    }

    /// Returns the path of the webhook, such as `/validate/example.com/v1/websites`. The path of a core resource
    /// contains the group `core`.
    pub fn path(&self) -> String {
        let version = &self.resource.group_version.version;
        let mut path = format!("/{}/{}/{version}/{}", self.verb(), self.group(), self.resource.plural);
        for part in self.subresource.iter().chain(&self.name) {
            path.push('/');
            path.push_str(part);
        }
        path
    }

    /// Returns the name of the webhook in its configuration, such as `quota.validate.websites.v1.example.com`. Like the
    /// path, the name is unique, and it has at least three segments.
    pub(crate) fn full_name(&self) -> String {
        let mut parts: Vec<&str> = self.name.iter().chain(&self.subresource).map(String::as_str).collect();
        parts.extend([self.verb(), &self.resource.plural, &self.resource.group_version.version, self.group()]);
        parts.join(".")
    }

    pub(crate) fn is_mutating(&self) -> bool {
        self.webhook_type == WebhookType::Mutating
    }

    fn verb(&self) -> &'static str {
        if self.is_mutating() { "mutate" } else { "validate" }
    }

    fn group(&self) -> &str {
        match self.resource.group_version.group.as_str() {
            "" => "core",
            group => group,
        }
    }
}

pintle_meta::debug_struct!(Webhook |self| { path = self.path(), operations, timeout, failure_policy, .. });

//! The common types of the Kubernetes API, such as keys, resources, objects, lists, statuses and watch events.
//!
//! All Pintle crates use these types in their APIs. The types do not depend on a Kubernetes release.
//!
//! ```
//! use pintle_meta::{Object, ObjectKey, ObjectMeta, Resource};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Deserialize, Serialize)]
//! struct Website {
//!     metadata: ObjectMeta,
//!     spec: serde_json::Value,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//!
//! let site: Website = serde_json::from_str(r#"{"metadata": {"name": "blog", "namespace": "team-a"}, "spec": {}}"#)?;
//! assert_eq!(site.key(), ObjectKey::new("team-a", "blog"));
//! assert_eq!(Website::api_resource().gvr().to_string(), "example.com/v1/websites");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # Concepts
//!
//! - An [`ObjectKey`] identifies an object among the objects of its resource, and an [`ApiResource`] identifies the
//!   resource.
//! - All types with metadata implement the trait [`Object`]. Objects whose resource is known at compile time also
//!   implement the trait [`Resource`]. A [`DynamicObject`] is an object of any kind.
//! - [`LabelSelector`] and [`FieldSelector`] select objects by their labels and fields.
//! - [`Conditions`] is the list `conditions` in the status of an object.
//! - [`List`], [`WatchEvent`] and [`Status`] are responses of the server. [`ApiError`] describes a failed request.
//! - [`ListWatch`] and [`ObjectApi`] are the client traits for informers, electors and recorders. [`ListWatch`]
//!   delivers [`RawObject`]s. A source of decoded objects implements [`ObjectSource`] instead.
//! - [`ClientConfig`] configures a client. `Debug` never prints the text of a [`Secret`]. [`redacted_url`] and [`DecodeError`]
//!   remove secrets from displayed text.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `k8s-openapi` | implements `Object` and `Resource` for the types of the crate k8s-openapi; your program selects the Kubernetes version with a feature of k8s-openapi |
//! | `schemars` | implements `JsonSchema` for metadata, times and conditions |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod brackets;
mod client_config;
mod condition;
mod continue_tokens;
mod dynamic;
mod error;
mod group_resource;
#[cfg(feature = "schemars")]
mod json_schema;
mod key;
mod list;
mod null;
mod object;
mod object_meta;
mod object_source;
mod options;
mod raw_object;
mod redacted;
mod resource;
mod response;
mod scope;
mod seams;
mod selector;
mod status;
mod sync;
mod test_clock;
mod time;
mod watch;
mod watch_event_type;

#[cfg(feature = "k8s-openapi")]
mod openapi;

pub use client_config::{
    BasicAuth, ClientConfig, ExecConfig, Impersonate, InteractiveMode, OidcConfig, PemSource, PluginPolicy, Secret,
    TlsClientConfig, TokenStore,
};
pub use condition::{Condition, ConditionStatus, Conditions};
pub use dynamic::{DynamicObject, PartialObject};
pub use error::{ApiError, Cause, ErrorKind, RequestLine};
pub use group_resource::{GroupResource, InvalidGroupResource};
pub use key::{InvalidKey, ObjectKey};
pub use list::{List, ListMeta};
pub use object::{Metadata, Object, OwnerRef, Resource};
pub use object_meta::{ObjectMeta, OwnerReference, TypeMeta};
pub use object_source::{Encoded, EncodedEvents, ObjectSource, Parts};
pub use options::{
    DeleteOptions, FieldValidation, ListOptions, Patch, Preconditions, PropagationPolicy, ResourceVersionMatch,
    WatchOptions, WriteOptions,
};
pub use raw_object::{Oversized, RawObject};
pub use redacted::{DecodeError, redacted_url};
pub use resource::{ApiResource, GroupVersion, GroupVersionKind, GroupVersionResource, InvalidGroupVersion};
pub use response::{Flow, ResponseInfo};
pub use scope::{ClusterScope, NamespaceScope, ResourceScope, Scope};
pub use seams::{ListPart, ListWatch, ObjectApi};
pub use selector::{
    FieldRequirement, FieldSelector, InvalidSelector, LabelRequirement, LabelSelector, LabelSelectorExpression,
    LabelSelectorSpec, SelectorOperator, label_key_faults, label_value_faults,
};
pub use status::{Reason, Status, StatusCause, StatusDetails};
pub use time::{MicroTime, Time};
pub use watch::{Bookmark, WatchEvent};
pub use watch_event_type::{UnknownWatchEventType, WatchEventType};

/// Functions that only the other Pintle crates may use, because they can change in any version.
#[doc(hidden)]
pub mod __private {
    pub use crate::brackets::{Brackets, End, Shape};
    pub use crate::continue_tokens::ContinueTokens;
    pub use crate::key::segment_fault;
    pub use crate::null::or_empty;
    pub use crate::selector::{is_dns_label, is_dns_part, is_dns_subdomain, quoted};
    pub use crate::sync::{Mutex, RwLock};
    pub use crate::test_clock::TestClock;
    pub use crate::time::go_duration;
}

// Runs the README examples as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

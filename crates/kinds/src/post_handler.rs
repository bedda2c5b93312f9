//! Handlers for POST requests that store no object, but perform an action or return information. Examples are requests
//! that bind a pod, evict a pod, or review a permission.

use std::sync::Arc;

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::user::User;
use pintle_json::Json;
use pintle_meta::GroupResource;

use super::Kind;
use super::token_grant::TokenGrant;
use crate::request_target::RequestTarget;

/// Handles POST requests to a subresource, or to a kind that is not stored.
pub trait PostHandler: Sync {
    /// Returns the kind of a request body with this `apiVersion`.
    fn body(&self, target: &RequestTarget, _api_version: &str) -> Arc<Kind> {
        target.kind.clone()
    }

    /// Sets the defaults of missing fields.
    fn defaults(&self, _sent: &mut Json) {}

    /// Validates the body without reading other objects. Runs between mutating and validating admission, so validating
    /// plugins and webhooks never receive an invalid body.
    fn check(&self, _context: &Context<'_>, _target: &RequestTarget, _sent: &Json) -> Outcome<()> {
        Ok(())
    }

    /// Returns the task that performs the request. The body has already passed validation and admission.
    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task>;

    /// Returns `true` if the request only returns information and does not change objects.
    fn is_read_only(&self) -> bool {
        false
    }
}

/// The task that performs a POST request.
pub enum Task {
    /// Runs the steps in order until one fails. If all steps succeed, responds with a Status that reports success. If
    /// `only_if_unchanged` is set and the object has changed in the meantime, the server computes the task again.
    Steps { steps: Vec<PostStep>, dry_run: bool, only_if_unchanged: bool },
    /// Responds with this object.
    Answer(Json),
    /// Writes the answer to a review's question into the status of the object, and responds with the object.
    Ask(Box<Question>, Json),
    /// Issues a service account token.
    Token(Box<TokenGrant>),
}

/// A step of [`Task::Steps`].
pub enum PostStep {
    /// Changes an object without the validation for client requests. If a concurrent write causes a conflict, the
    /// change is computed again.
    Rewrite { resource: GroupResource, namespace: String, name: String, change: ObjectChange },
    /// Changes a subresource through an internal request, with validation and admission. The server may call `change`
    /// several times. A dry run only checks whether the change is possible.
    Update { resource: GroupResource, namespace: String, name: String, subresource: Subresource, change: ObjectChange },
    /// Deletes the request's target object.
    Delete(DeleteOptions),
}

/// Changes an object. The server may call the function several times.
pub type ObjectChange = Box<dyn Fn(&mut Json) -> Outcome<()> + Sync>;

/// The question in a review about a user or a permission. The server's authenticator or authorizer answers it.
pub enum Question {
    /// Asks for a token's user. The token must be valid for one of the audiences. An empty list means the audience of
    /// the server.
    Token { token: String, audiences: Vec<String> },
    /// Asks for all permissions of the requesting user in a namespace.
    Rules { namespace: String },
    /// Asks whether the user may perform a verb on a resource.
    Resource { user: User, verb: String, path: ResourcePath },
    /// Asks whether the user may perform a verb on a non-resource path.
    Path { user: User, verb: String, path: String },
}

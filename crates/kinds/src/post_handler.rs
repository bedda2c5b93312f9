//! Handlers for POST requests that store no object, but perform an action or return a computed answer, such as requests
//! to bind a pod, evict a pod, or review a permission.

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

    /// Sets the defaults of missing fields, and removes fields that clients cannot set.
    fn defaults(&self, _sent: &mut Json) {}

    /// Validates the body without reading other objects. The server calls this method between mutating and validating
    /// admission, so that validating plugins and webhooks do not receive invalid bodies.
    fn check(&self, _context: &Context<'_>, _target: &RequestTarget, _sent: &Json) -> Outcome<()> {
        Ok(())
    }

    /// Sets the fields that only the server sets, for validating admission. The server calls this method after
    /// [`check`](Self::check).
    fn complete(&self, _context: &Context<'_>, _target: &RequestTarget, _sent: &mut Json) -> Outcome<()> {
        Ok(())
    }

    /// Returns the task that performs the request, after the body has passed validation and admission.
    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task>;

    /// Returns `true` if the request only returns data and changes no objects.
    fn is_read_only(&self) -> bool {
        false
    }
}

/// The task that performs a POST request.
pub enum Task {
    /// Runs `steps` in order until a step fails. If all steps succeed, the response reports success. If
    /// `only_if_unchanged` is true and the object has changed since the task was computed, the server computes the task
    /// again.
    Steps { steps: Vec<PostStep>, dry_run: bool, only_if_unchanged: bool },
    /// Responds with the contained object.
    Answer(Json),
    /// Writes the answer to a review into the status of the contained object, and responds with this object.
    Ask(Box<Question>, Json),
    /// Issues a service account token.
    Token(Box<TokenGrant>),
}

/// A step of [`Task::Steps`].
pub enum PostStep {
    /// Changes an object without the validation for client requests. After a conflict with a concurrent write, the
    /// server computes the change again.
    Rewrite { resource: GroupResource, namespace: String, name: String, change: ObjectChange },
    /// Changes a subresource through an internal request, with validation and admission. The server may call `change`
    /// several times. A dry run only checks whether the server could make the change.
    Update { resource: GroupResource, namespace: String, name: String, subresource: Subresource, change: ObjectChange },
    /// Deletes the object that the request addresses.
    Delete(DeleteOptions),
}

/// A function that changes an object, and that the server may call several times.
pub type ObjectChange = Box<dyn Fn(&mut Json) -> Outcome<()> + Sync>;

/// The question of a review about a user or a permission, which the server's authenticator or authorizer answers.
pub enum Question {
    /// Asks for the user of a token. The token must be valid for one of the `audiences`. If `audiences` is empty, the
    /// token must be valid for the audience of the server.
    Token { token: String, audiences: Vec<String> },
    /// Asks for all permissions of the requesting user in a namespace.
    Rules { namespace: String },
    /// Asks whether the user may perform a verb on a resource.
    Resource { user: User, verb: String, path: ResourcePath },
    /// Asks whether the user may perform a verb on a non-resource path.
    Path { user: User, verb: String, path: String },
}

//! Handlers for POST requests that store no object, but perform an action or return information. Examples are requests that bind a pod,
//! evict a pod or review a permission.

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
    /// Returns the kind of request bodies with this `apiVersion`.
    fn body(&self, target: &RequestTarget, _api_version: &str) -> Arc<Kind> {
        target.kind.clone()
    }

    /// Sets the defaults of missing fields.
    fn defaults(&self, _sent: &mut Json) {}

    /// Validates the body without reading other objects. This method runs between mutating and
    /// validating admission, so validating plugins and webhooks never receive an invalid body.
    fn check(&self, _context: &Context<'_>, _target: &RequestTarget, _sent: &Json) -> Outcome<()> {
        Ok(())
    }

    /// Returns the task for the request. The body has already passed validation and admission.
    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task>;

    /// Returns `true` if the request only asks for information and changes no object.
    fn is_read_only(&self) -> bool {
        false
    }
}

/// The work of a POST request.
pub enum Task {
    /// Runs the steps in order until one fails. If all steps succeed, responds with a Status that reports success.
    /// With `only_if_unchanged`, the server computes the task again if the object has changed in the meantime.
    Steps { steps: Vec<PostStep>, dry_run: bool, only_if_unchanged: bool },
    /// Responds with this object.
    Answer(Json),
    /// Writes the answer to the question into the object's status and responds with the object.
    Ask(Box<Question>, Json),
    /// Issues a service account token.
    Token(Box<TokenGrant>),
}

/// A step of [`Task::Steps`].
pub enum PostStep {
    /// Changes an object without the validation of client requests. After
    /// a conflict with a concurrent write, the change is computed again.
    Rewrite { resource: GroupResource, namespace: String, name: String, change: ObjectChange },
    /// Changes a subresource through an internal request, with validation and admission. The server can call
    /// the change function several times. In a dry run, the task only checks whether the change is possible.
    Update { resource: GroupResource, namespace: String, name: String, subresource: Subresource, change: ObjectChange },
    /// Deletes the request's target object.
    Delete(DeleteOptions),
}

/// Changes an object. The server may call the function several times.
pub type ObjectChange = Box<dyn Fn(&mut Json) -> Outcome<()> + Sync>;

/// A review's question about a user or a permission, which the server's authenticator or authorizer answers.
pub enum Question {
    /// Asks for a token's user. The token must be valid for one of the audiences. An empty list means the server's own audience.
    Token { token: String, audiences: Vec<String> },
    /// Asks for all permissions of the requesting user in a namespace.
    Rules { namespace: String },
    /// Asks whether the user may perform a verb on a resource.
    Resource { user: User, verb: String, path: ResourcePath },
    /// Asks whether the user may perform a verb on a non-resource path.
    Path { user: User, verb: String, path: String },
}

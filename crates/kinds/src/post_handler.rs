//! Defines handlers for POST requests that do not store an object. Such a POST request performs an action or returns information. For
//! example, a request can bind a pod, evict a pod or review an access.

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

/// A handler for POST requests to a kind that is not stored, or to a subresource.
pub trait PostHandler: Sync {
    /// Returns the kind that the body of a request with this `apiVersion` must have.
    fn body(&self, target: &RequestTarget, _api_version: &str) -> Arc<Kind> {
        target.kind.clone()
    }

    /// Sets the defaults of missing fields.
    fn defaults(&self, _sent: &mut Json) {}

    /// Validates the body without reading other objects. This method runs after mutating admission and before validating admission, so
    /// validating plugins and webhooks never receive an invalid body.
    fn check(&self, _context: &Context<'_>, _target: &RequestTarget, _sent: &Json) -> Outcome<()> {
        Ok(())
    }

    /// Returns the task that the request must perform. The body has already passed validation and admission.
    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task>;

    /// Returns whether the request only asks for information, and does not change any object.
    fn is_question(&self) -> bool {
        false
    }
}

/// The task that a POST request performs.
pub enum Task {
    /// Runs these steps in order. If a step fails, the remaining steps do not run. If all steps succeed, the response is a Status that
    /// reports success. If `only_if_unchanged` is set and the object has changed since the task was computed, the server computes the task
    /// again.
    Steps { steps: Vec<PostStep>, dry_run: bool, only_if_unchanged: bool },
    /// Responds with this object.
    Answer(Json),
    /// Writes the answer to the question into the status of the object, and responds with the object.
    Ask(Box<Question>, Json),
    /// Issues a token for a service account.
    Token(Box<TokenGrant>),
}

/// A step of [`Task::Steps`].
pub enum PostStep {
    /// Changes an object without the validation that applies to client requests. If a concurrent write causes a conflict, the server
    /// computes the change again.
    Rewrite { resource: GroupResource, namespace: String, name: String, change: ObjectChange },
    /// Changes a subresource through an internal request. Validation and admission apply to the change. The server can call the function
    /// for the change more than once. In a dry run, the task only checks whether the change is possible.
    Update { resource: GroupResource, namespace: String, name: String, subresource: Subresource, change: ObjectChange },
    /// Deletes the target object of the request.
    Delete(DeleteOptions),
}

/// A function that changes an object. The server may call the function more than once.
pub type ObjectChange = Box<dyn Fn(&mut Json) -> Outcome<()> + Sync>;

/// A question that a review asks about a user or a permission. The server answers the question with its authenticator or its authorizer.
pub enum Question {
    /// Asks for the user of a token. The token must be valid for at least one of the contained audiences. An empty list of audiences means
    /// the audience of the server itself.
    Token { token: String, audiences: Vec<String> },
    /// Asks for all permissions that the requesting user has in a namespace.
    Rules { namespace: String },
    /// Asks whether the user may perform this verb on a resource.
    Resource { user: User, verb: String, path: ResourcePath },
    /// Asks whether the user may perform this verb on a non-resource path.
    Path { user: User, verb: String, path: String },
}

//! POST requests that store no object. They perform an action or return information. Examples are bindings, evictions and access reviews.

use std::sync::Arc;

use pintle_json::Json;

use super::token_grant::TokenGrant;
use super::{Context, GroupResource, Kind, RequestTarget};
use crate::failure::Outcome;
use crate::request::Subresource;
use crate::request::options::DeleteOptions;
use crate::request::path::ResourcePath;
use crate::request::user::User;

/// The handler of a POST to a kind that is not stored, or to a subresource.
pub(crate) trait PostHandler: Sync {
    /// Returns the kind of a body with this `apiVersion`.
    fn body(&self, target: &RequestTarget, _api_version: &str) -> Arc<Kind> {
        target.kind.clone()
    }

    /// Sets the defaults of missing fields.
    fn defaults(&self, _sent: &mut Json) {}

    /// Validates the body without reading other objects. This method runs before admission, so admission plugins never get an invalid body.
    fn check(&self, _context: &Context<'_>, _target: &RequestTarget, _sent: &Json) -> Outcome<()> {
        Ok(())
    }

    /// Returns the task for a body that has passed validation and admission.
    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task>;

    /// Returns whether the request only asks a question and changes no object.
    fn is_question(&self) -> bool {
        false
    }
}

/// The task that a POST request performs.
pub(crate) enum Task {
    /// Runs the steps in order and stops at the first failure. The response is a success Status. If `only_if_unchanged` is set and the
    /// object has changed since the task was computed, the server computes the task again.
    Steps { steps: Vec<PostStep>, dry_run: bool, only_if_unchanged: bool },
    /// Responds with this object.
    Answer(Json),
    /// Sets the status of the object to the answer to this question, and responds with the object.
    Ask(Box<Question>, Json),
    /// Issues a token for a service account.
    Token(Box<TokenGrant>),
}

/// A step of [`Task::Steps`].
pub(crate) enum PostStep {
    /// Changes an object without the validation of client requests. If another write conflicts, the change runs again.
    Rewrite { resource: GroupResource, namespace: String, name: String, change: ObjectChange },
    /// Changes a subresource with an internal request of the server, including validation and admission. The change can run more than once.
    /// A dry run only checks whether the change is possible.
    Update { resource: GroupResource, namespace: String, name: String, subresource: Subresource, change: ObjectChange },
    /// Deletes the target object of the request.
    Delete(DeleteOptions),
}

/// A function that changes an object. It can be called more than once.
pub(crate) type ObjectChange = Box<dyn Fn(&mut Json) -> Outcome<()> + Sync>;

/// A question about a user or a permission. The server answers it with its authenticator or authorizer.
pub(crate) enum Question {
    /// Asks for the user of a token. The token must be valid for one of these audiences. An empty list means the audience of the server
    /// itself.
    Token { token: String, audiences: Vec<String> },
    /// Asks for all permissions of the requesting user in a namespace.
    Rules { namespace: String },
    /// Asks whether the user may apply the verb to a resource.
    Resource { user: User, verb: String, path: ResourcePath },
    /// Asks whether the user may apply the verb to a non-resource path.
    Path { user: User, verb: String, path: String },
}

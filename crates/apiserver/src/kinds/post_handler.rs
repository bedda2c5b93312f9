//! Handlers of POST requests that store no object. Such requests perform an action or return information. Examples are the requests that
//! bind a pod, evict a pod or review an access.

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
    /// Returns the kind of a body that has this `apiVersion`.
    fn body(&self, target: &RequestTarget, _api_version: &str) -> Arc<Kind> {
        target.kind.clone()
    }

    /// Sets the defaults of missing fields.
    fn defaults(&self, _sent: &mut Json) {}

    /// Validates the body, without access to other objects. This method runs before admission, so admission plugins never receive an
    /// invalid body.
    fn check(&self, _context: &Context<'_>, _target: &RequestTarget, _sent: &Json) -> Outcome<()> {
        Ok(())
    }

    /// Returns the task to perform. The body has already passed validation and admission.
    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task>;

    /// Returns whether the request only asks for information and changes no object.
    fn is_question(&self) -> bool {
        false
    }
}

/// The task that a POST request performs.
pub(crate) enum Task {
    /// Runs the steps in order. If a step fails, the later steps do not run. If all steps succeed, the response is a success Status. If
    /// `only_if_unchanged` is set and the object changes after the task was computed, the server computes the task again.
    Steps { steps: Vec<PostStep>, dry_run: bool, only_if_unchanged: bool },
    /// Responds with this object.
    Answer(Json),
    /// Answers this question in the status of the object, and responds with the object.
    Ask(Box<Question>, Json),
    /// Issues a token for a service account.
    Token(Box<TokenGrant>),
}

/// A step of [`Task::Steps`].
pub(crate) enum PostStep {
    /// Changes an object without the validation that client requests need. If a concurrent write causes a conflict, the change runs again.
    Rewrite { resource: GroupResource, namespace: String, name: String, change: ObjectChange },
    /// Changes a subresource with an internal request. The change passes validation and admission. The change can run more than once. In a
    /// dry run, the task only checks whether the change is possible.
    Update { resource: GroupResource, namespace: String, name: String, subresource: Subresource, change: ObjectChange },
    /// Deletes the target object of the request.
    Delete(DeleteOptions),
}

/// A function that changes an object. The server may call the function more than once.
pub(crate) type ObjectChange = Box<dyn Fn(&mut Json) -> Outcome<()> + Sync>;

/// A question about a user or a permission. The server uses its authenticator or authorizer to answer the question.
pub(crate) enum Question {
    /// Asks for the user of a token. The token must be valid for one of these audiences. An empty list means the audience of the server
    /// itself.
    Token { token: String, audiences: Vec<String> },
    /// Asks for all permissions that the requesting user has in a namespace.
    Rules { namespace: String },
    /// Asks whether the user may use the verb on a resource.
    Resource { user: User, verb: String, path: ResourcePath },
    /// Asks whether the user may use the verb on a non-resource path.
    Path { user: User, verb: String, path: String },
}

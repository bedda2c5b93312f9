//! What is posted to be done, and not to be stored: a binding, an eviction, a question of who may do what.

use std::sync::Arc;

use pintle_json::Json;

use super::token_grant::TokenGrant;
use super::{Context, GroupResource, Kind, RequestTarget};
use crate::failure::Outcome;
use crate::request::Subresource;
use crate::request::options::DeleteOptions;
use crate::request::path::ResourcePath;
use crate::request::user::User;

/// What is posted to a kind of which nothing is stored, or to a path below an object.
pub(crate) trait Posting: Sync {
    /// The kind of a body that says to be of that version.
    fn body(&self, target: &RequestTarget, _api_version: &str) -> Arc<Kind> {
        target.kind.clone()
    }

    /// Fills in what was left out.
    fn defaults(&self, _sent: &mut Json) {}

    /// Fails if what was sent is wrong whatever else there is, so that admission is not asked about it.
    fn check(&self, _context: &Context<'_>, _place: &RequestTarget, _sent: &Json) -> Outcome<()> {
        Ok(())
    }

    /// What is to be done for what was sent there, and passed.
    fn task(&self, context: &Context<'_>, target: &RequestTarget, sent: &Json, dry_run: bool) -> Outcome<Task>;

    /// Whether it is a question, which changes nothing.
    fn is_question(&self) -> bool {
        false
    }
}

/// What is done for what was posted.
pub(crate) enum Task {
    /// These steps, one after another, until one fails. The answer says that it is done. If they only go for the object as it was looked
    /// at, what is to be done is found out anew where it has changed.
    Steps { steps: Vec<PostingStep>, dry_run: bool, only_as_seen: bool },
    /// This is answered.
    Answer(Json),
    /// The object is answered, with what is found out as its status.
    Ask(Box<Question>, Json),
    /// A token is made.
    Token(Box<TokenGrant>),
}

/// A step of what is done.
pub(crate) enum PostingStep {
    /// An object is changed past the rules for clients, by a change that may be made more than once, if another write comes between.
    Rewrite { resource: GroupResource, namespace: String, name: String, change: Amendment },
    /// A part of an object is changed as the server itself asks for it, by such a change: by the rules, and if admission lets it. Of one
    /// that is but tried, it is only found out whether it can be made.
    Update { resource: GroupResource, namespace: String, name: String, subresource: Subresource, change: Amendment },
    /// The object that it was posted to is deleted.
    Delete(DeleteOptions),
}

/// What is done to an object.
pub(crate) type Amendment = Box<dyn Fn(&mut Json) -> Outcome<()> + Sync>;

/// What only they can tell who know users and their rights.
pub(crate) enum Question {
    /// Who is behind a token that is for one of these audiences; for the server itself, if there are none.
    Token { token: String, audiences: Vec<String> },
    /// All that who asks may do in a namespace.
    Rules { namespace: String },
    /// Whether somebody may do something to a resource.
    Resource { who: User, verb: String, path: ResourcePath },
    /// Whether somebody may do something with a path that is none of a resource.
    Path { who: User, verb: String, path: String },
}

//! What the strategies of kinds answer with.

use pintle_json::Json;

use super::{Cluster, RequestTarget};
use crate::failure::Outcome;
use crate::request::query::Query;

/// How stored objects become what a version shows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// They are shown as they are stored.
    Stored,
    /// They are made anew each time.
    Converted,
    /// Some are shown as they are stored. Which, is the same for all that have this number.
    Checked(u64),
}

/// Where a kind comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// It is part of the server.
    BuiltIn,
    /// A custom resource definition made it.
    Custom,
}

/// How a real server finds out what serves a request. It words what nothing serves accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routing {
    /// Each path has a route for each method.
    PerMethod,
    /// One handler takes whatever no route is for, and looks up the definition.
    CatchAll,
}

/// What becomes of a finalizer that names no domain and is none of the standard ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainFinalizers {
    Refused,
    WarnedOf,
    Taken,
}

/// What the objects of a kind have to do with pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    Unrelated,
    /// They are pods.
    Themselves,
    /// Pods are made of the template that is there.
    MadeFrom(&'static str),
    /// Pods are in them, held to the standards that their labels name.
    Inside,
}

/// A part of an object that goes on for as long as somebody listens.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    /// The methods by which it is asked for.
    pub(crate) methods: &'static [&'static str],
    /// Its options, as the query and the rest of the path have them.
    pub(crate) options: fn(&Query, &[String]) -> Outcome<Json>,
    /// Whether it is a way into the object, about which admission is asked.
    pub(crate) connects: bool,
    /// Whether its paths go on.
    pub(crate) goes_below: bool,
    /// What comes of it, or why nothing does: of the object that a place names, and of those options.
    pub(crate) answer: fn(&dyn Cluster, &RequestTarget, &Json) -> Outcome<StreamAnswer>,
}

/// What comes of a stream.
pub(crate) enum StreamAnswer {
    Text(&'static str),
    /// It would be passed on to somebody who is not there, for this reason.
    Nobody(String),
}

/// A right that a write takes beside that to write: to do something to one of these objects.
#[derive(Debug)]
pub(crate) struct FurtherRight {
    pub(crate) verb: &'static str,
    /// In the group of the kind.
    pub(crate) resource: &'static str,
    pub(crate) names: Vec<String>,
    /// What who lacks it is told.
    pub(crate) refusal: String,
}

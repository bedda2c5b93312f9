//! What one who has a say in requests is, and is told.

use std::fmt;

use pintle_json::Json;

use super::Registry;
use crate::failure::Outcome;
use crate::kinds::RequestTarget;
use crate::object::metadata;
use crate::request::Requester;
use crate::request::options::{DeleteOptions, WriteOptions};
use crate::store::Charge;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Of an object; or of what is posted to a path of its own and not stored, such as a binding or an eviction.
    Create,
    Update,
    Delete,
    /// A way is opened to what goes on in an object, such as `exec`.
    Connect,
}

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AdmissionOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// Those of a connect are what is sent.
    None,
}

/// All that one who has a say is told of a request. It has no Debug, since it may hold a Secret.
///
/// Of a part with a form of its own, such as a Scale, an Eviction or the options of `exec`, that is what is old and new, and not the
/// object.
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) operation: Operation,
    /// What the path names: without a name where an object is made, and where a collection is deleted.
    pub(crate) target: &'a RequestTarget,
    /// What is there; none of a create and of a connect.
    pub(crate) old: Option<&'a Json>,
    /// What is to be there, or what is sent; none of a deletion.
    pub(crate) new: Option<&'a mut Json>,
    pub(crate) options: AdmissionOptions<'a>,
    pub(crate) by: &'a Requester,
}

impl AdmissionRequest<'_> {
    /// The name of what it is about; empty where that is a collection, and before a name is made of `generateName`.
    pub(crate) fn name(&self) -> &str {
        match (self.target.name.as_str(), self.new.as_deref()) {
            ("", Some(new)) => metadata::name(new),
            (name, _) => name,
        }
    }

    pub(crate) fn dry_run(&self) -> bool {
        match self.options {
            AdmissionOptions::Write(options) => options.dry_run,
            AdmissionOptions::Delete(options) => options.dry_run,
            AdmissionOptions::None => false,
        }
    }
}

/// One who has a say in requests. What it has to say beside, the client is [warned of](Requester::warn), whatever comes of the request.
pub(crate) trait Plugin: fmt::Debug + Send + Sync {
    /// Changes what is sent, before its kind has a look at it; or refuses the request. It is asked again where another write came in
    /// between.
    fn admit(&self, _: &Registry, _: &mut AdmissionRequest<'_>) -> Outcome<()> {
        Ok(())
    }

    /// Refuses the request: what is sent is valid. Or says what quotas are charged with the write.
    fn validate(&self, _: &Registry, _: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        Ok(Vec::new())
    }
}

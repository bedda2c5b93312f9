//! [`Writer`], the author of a write with its field manager.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::options::WriteOptions;
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::request::{Requester, Subresource};
use pintle_apimachinery::validate::is_printable;
use pintle_fieldmanager::VersionSchemas;
use pintle_json::Json;
use pintle_meta::{Reason, StatusDetails};
use pintle_schema::Schema;

use crate::Kind;

/// The field manager of writes by the server itself.
pub const OWN_MANAGER: &str = "kube-apiserver";

/// The maximum length of a field manager name from the user agent, in bytes.
const LONGEST_NAME: usize = 128;

/// The author of a write: the requester, the field manager and the write options.
#[derive(Clone, Debug)]
pub struct Writer<'a> {
    pub options: &'a WriteOptions,
    name: String,
    now: String,
    versions: Versions,
    requester: Requester,
    may_create: Outcome<()>,
}

impl<'a> Writer<'a> {
    /// Creates a writer. The field manager comes from the write options, or otherwise from the user agent, up to its
    /// first slash. The requester is the server itself, unless [`with_requester`](Self::with_requester) sets another
    /// requester.
    pub fn new(options: &'a WriteOptions, user_agent: &str, now: String) -> Self {
        let name = match options.field_manager.as_str() {
            "" => from_user_agent(user_agent),
            name => name.to_owned(),
        };
        Self {
            options,
            name,
            now,
            versions: Versions::default(),
            requester: Requester::new(User::server()),
            may_create: Ok(()),
        }
    }

    /// Sets the requester.
    pub fn with_requester(mut self, requester: Requester) -> Self {
        self.requester = requester;
        self
    }

    pub fn requester(&self) -> &Requester {
        &self.requester
    }

    /// Sets whether the requester may create objects.
    pub fn with_create_permission(mut self, may_create: Outcome<()>) -> Self {
        self.may_create = may_create;
        self
    }

    /// Returns an error if the requester is not allowed to create the missing object.
    pub fn check_may_create(&self) -> Outcome<()> {
        self.may_create.clone()
    }

    /// Sets the served versions of the custom resource.
    pub fn with_served_versions(mut self, kinds: Vec<Arc<Kind>>) -> Self {
        self.versions = Versions(kinds);
        self
    }

    /// Updates the managed fields after a write other than an apply. Both objects must contain their defaults, but the
    /// strategy must not have changed them yet.
    pub fn track(&self, kind: &Kind, old: Option<&Json>, new: &mut Json, subresource: Subresource) {
        self.with_context(kind, subresource, |context| pintle_fieldmanager::track_update(old, new, context));
    }

    /// If `managedFields` is malformed after admission, restores the entries from `before` the admission and warns.
    pub fn restore_malformed(&self, object: &mut Json, before: Option<Json>) {
        let fault = pintle_fieldmanager::restore_malformed(object, before);
        fault.into_iter().for_each(|text| self.requester().warn(text));
    }

    /// Applies a configuration to the live object with server-side apply.
    pub fn apply(&self, kind: &Kind, live: Option<&Json>, applied: &Json, subresource: Subresource) -> Outcome<Json> {
        let run = |context: &pintle_fieldmanager::WriteContext<'_>| {
            pintle_fieldmanager::apply(live, applied, self.options.force, context)
        };
        let outcome = self.with_context(kind, subresource, run);
        let outcome = outcome.ok_or_else(|| Failure::plain(500, "the kind has no schema to apply by"))?;
        let applied = outcome.map_err(|error| match error {
            pintle_fieldmanager::ApplyError::BadRequest(why) => Failure::bad_request(why),
            pintle_fieldmanager::ApplyError::Conflicts(conflicts) => {
                let details = StatusDetails { causes: conflicts.causes(), ..StatusDetails::default() };
                Failure::new(409, Reason::Conflict, conflicts.to_string()).with(details)
            }
            pintle_fieldmanager::ApplyError::Typed(why) => Failure::plain(500, why),
        })?;
        Ok(applied.object)
    }

    fn with_context<R>(
        &self,
        kind: &Kind,
        subresource: Subresource,
        run: impl FnOnce(&pintle_fieldmanager::WriteContext<'_>) -> R,
    ) -> Option<R> {
        let schema = kind.schema()?;
        let served: Vec<String> = self.versions.0.iter().map(|kind| kind.api_version()).collect();
        Some(run(&pintle_fieldmanager::WriteContext {
            manager: &self.name,
            api_version: &kind.api_version(),
            subresource: subresource.name(),
            now: &self.now,
            schema: &schema,
            reset: kind.reset_fields(subresource),
            served: &served,
            schemas: (served.len() > 1).then_some(&self.versions),
            conversion: kind.strategy.conversion(),
        }))
    }
}

/// The kind of a custom resource in all served versions. The list is empty for a built-in kind.
#[derive(Clone, Debug, Default)]
struct Versions(Vec<Arc<Kind>>);

impl VersionSchemas for Versions {
    fn schema(&self, api_version: &str) -> Option<Arc<Schema>> {
        self.0.iter().find(|kind| kind.api_version() == api_version)?.schema()
    }
}

fn from_user_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut kept = String::new();
    for c in name.chars().filter(|c| is_printable(*c)) {
        if kept.len() + c.len_utf8() > LONGEST_NAME {
            break;
        }
        kept.push(c);
    }
    if kept.is_empty() { "unknown".into() } else { kept }
}

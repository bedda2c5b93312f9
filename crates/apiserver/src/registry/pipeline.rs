//! The phases of a write, which convert the object in the request to the stored object.
//!
//! All writes go through [`Registry::receive`] and [`Registry::complete`]. The steps before and after these two methods
//! depend on the verb. A create request may try several generated names until it finds an unused name. An update
//! request compares versions, and computes the new object again after a conflict.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::{metadata, metadata_mut, restore_except, restore_member};
use pintle_apimachinery::request::options::How;
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, RequestTarget, Scale, nesting};
use pintle_storage::Charge;

use super::Registry;
use super::admission_chain;
use super::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation};
use super::object_write::Write;

pub(super) struct Complete {
    pub(super) object: Json,
    pub(super) charges: Vec<Charge>,
}

impl Registry {
    /// Runs the phases before the kind's rules: sets defaults and managed fields, runs mutating admission, and checks
    /// for privilege escalation.
    pub(super) fn receive(&self, write: &mut Write<'_>) -> Outcome<()> {
        write.has_labels = write.new.at("/metadata/labels").is_some_and(|labels| !labels.is_empty());
        write.target.kind.set_defaults(&mut write.new);
        write.track();
        let is_mutable = write.by.requester().webhooks().is_some() || !self.policies.mutating(&self.db).is_empty();
        let managed = is_mutable.then(|| write.new.at("/metadata/managedFields").cloned());
        self.admit(write)?;
        managed.into_iter().for_each(|before| write.by.restore_malformed(&mut write.new, before));
        write.target.settle_namespace(&mut write.new)?;
        if pintle_authz::grants_rights(write.target) {
            pintle_authz::check_grant(self.rbac(), &write.by.requester().user, write.target, &write.new, write.old)?;
        }
        Ok(())
    }

    pub(super) fn complete(&self, mut write: Write<'_>) -> Outcome<Complete> {
        self.identify(&mut write);
        pintle_kinds::object_meta::check_types(&write.target.kind, &write.new)?;
        write.keep_other_parts();
        self.prepare(&mut write)?;
        write.validate(self)?;
        write.target.kind.normalise(&mut write.new);
        nesting::check(&write.target.kind, &write.new)?;
        let charges = self.validate_admitted(&mut write)?;
        Ok(Complete { object: write.new, charges })
    }

    /// Runs mutating admission. For `/scale`, the admission plugins receive the Scale object.
    fn admit(&self, write: &mut Write<'_>) -> Outcome<()> {
        let Some(Scales { paths, old, mut new }) = write.scales() else {
            return admission_chain::admit(self, &mut write.request());
        };
        admission_chain::admit(
            self,
            &mut AdmissionRequest { old: Some(&old), new: Some(&mut new), ..write.request() },
        )?;
        write.new = paths.write(&new, &write.new);
        Ok(())
    }

    fn validate_admitted(&self, write: &mut Write<'_>) -> Outcome<Vec<Charge>> {
        let scales = write.scales();
        let request = write.request();
        match scales {
            None => admission_chain::validate(self, &request),
            Some(Scales { old, mut new, .. }) => {
                admission_chain::validate(self, &AdmissionRequest { old: Some(&old), new: Some(&mut new), ..request })
            }
        }
    }

    /// Warns about fields that have an effect in a real cluster but not in this server.
    pub(super) fn warn_of_no_effect(&self, target: &RequestTarget, object: &Json, by: &Writer<'_>) {
        if target.subresource == Subresource::None {
            let is_built_in = |group: &str, version: &str| self.kinds().is_built_in(group, version);
            let warnings = target.kind.strategy.without_effect(object, &is_built_in);
            warnings.into_iter().for_each(|text| by.requester().warn(text));
        }
    }

    /// Sets the fields that only the server may set. For an update, copies these fields from the stored object.
    fn identify(&self, write: &mut Write<'_>) {
        let Some(old) = write.old else {
            let metadata = metadata_mut(&mut write.new);
            let requester = write.by.requester();
            metadata.set("uid", requester.uid(|| self.uuid()));
            let now = requester.now(|| self.clock.now());
            metadata.set("creationTimestamp", pintle_meta::Time(now).to_string());
            if write.target.kind.flags.maintains_generation {
                metadata.set("generation", 1);
            }
            return;
        };
        keep_identity(&mut write.new, old);
        // The storage of kube-apiserver removes `selfLink`, and a dry run does not use the storage.
        if !write.by.options.dry_run {
            metadata_mut(&mut write.new).unset("selfLink");
        }
    }

    /// Applies the kind's rules, allocates values such as addresses, and updates the generation.
    fn prepare(&self, write: &mut Write<'_>) -> Outcome<()> {
        let (kind, subresource, new) = (&write.target.kind, write.subresource(), &mut write.new);
        let requester = write.by.requester();
        let now = requester.now(|| self.clock.now());
        let context = Context { has_labels: write.has_labels, now, ..self.context(&requester.user) };
        kind.drop_gated_fields(new);
        match write.old {
            None => kind.prepare_for_create(&context, new),
            Some(old) => kind.strategy.prepare_for_update(&context, new, old, subresource),
        }
        kind.strategy.allocate(context.cluster, new, write.old, subresource)?;
        write.count_generation();
        Ok(())
    }
}

struct Scales<'a> {
    paths: &'a Scale,
    old: Json,
    new: Json,
}

impl<'a> Write<'a> {
    /// Returns the subresource to which the rules of the kind apply. For a new object, returns [`Subresource::None`],
    /// because a create always writes the whole object.
    fn subresource(&self) -> Subresource {
        self.old.map_or(Subresource::None, |_| self.target.subresource)
    }

    fn request(&mut self) -> AdmissionRequest<'_> {
        AdmissionRequest {
            operation: if self.old.is_some() { Operation::Update } else { Operation::Create },
            target: self.target,
            old: self.old,
            new: Some(&mut self.new),
            options: AdmissionOptions::Write(self.by.options),
            by: self.by.requester(),
        }
    }

    /// Returns the old and the new Scale for admission. Returns `None` if the write is not for `/scale`.
    fn scales(&self) -> Option<Scales<'a>> {
        let paths = self.target.kind.scale().filter(|_| self.target.subresource == Subresource::Scale)?;
        Some(Scales { paths, old: paths.owned(self.old?), new: paths.owned(&self.new) })
    }

    /// Updates the managed fields. `track` must run before the kind's rules change the object. Does nothing for an
    /// apply request, which has already updated the managed fields.
    pub(super) fn track(&mut self) {
        if self.how != How::Apply {
            self.by.track(&self.target.kind, self.old, &mut self.new, self.target.subresource);
        }
    }

    /// Restores the fields that this write must not change. A write to the object itself must not change the status,
    /// and a write to `/status` must not change anything else.
    fn keep_other_parts(&mut self) {
        let kind = &self.target.kind;
        let new = &mut self.new;
        match (self.old, self.target.subresource) {
            (None, _) if kind.splits_status() && !kind.flags.allows_status_on_create => new.unset("status"),
            (Some(old), Subresource::Status) => keep_all_but_status(new, old, kind),
            (Some(old), Subresource::None) if kind.splits_status() => restore_member(new, old, "status"),
            _ => (),
        }
    }

    fn count_generation(&mut self) {
        let (kind, Some(old)) = (&self.target.kind, self.old) else { return };
        let changes =
            self.target.subresource != Subresource::Status && kind.strategy.changes_generation(&self.new, old);
        let added = i64::from(kind.flags.maintains_generation && changes);
        let metadata = metadata_mut(&mut self.new);
        match metadata::generation(old) {
            None if added == 0 => metadata.unset("generation"),
            stored => metadata.set("generation", stored.unwrap_or(0).wrapping_add(added)),
        };
    }

    fn validate(&mut self, registry: &Registry) -> Outcome<()> {
        let (kind, subresource) = (&self.target.kind, self.subresource());
        let mut ratcheted = Vec::new();
        let in_cluster = kind.strategy.validate_in_cluster(&*registry.db, &self.new, self.old, subresource);
        let errors = match self.old {
            None => {
                let own = kind.strategy.validate_create(&self.new);
                let first_own = kind.flags.checks_metadata_last && !own.is_empty();
                let of_metadata = || pintle_kinds::object_meta::errors(kind, &self.new);
                [if first_own { FieldErrors::default() } else { of_metadata() }, own]
            }
            Some(old) => {
                let verb = if self.how == How::Put { Verb::Update } else { Verb::Patch }.name();
                let user = &self.by.requester().user;
                let denied =
                    pintle_authz::claim_status_errors(registry.rbac(), user, self.target, verb, [&self.new, old]);
                let mut own = kind.strategy.validate_update(&self.new, old, subresource);
                ratcheted = own.take_warnings();
                [denied.and(pintle_kinds::object_meta::update_errors(kind, &self.new, old, subresource)), own]
            }
        };
        let errors = in_cluster.into_iter().chain(errors.into_iter().flatten()).collect::<FieldErrors>();
        ratcheted.into_iter().for_each(|text| self.by.requester().warn(text));
        if !errors.is_empty() {
            return Err(kind.invalid(metadata::name(&self.new), errors));
        }
        let mut warnings = metadata::drop_repeated_owners(&mut self.new, self.how != How::Post && self.how != How::Put);
        warnings.extend(pintle_kinds::object_meta::warnings(kind, &self.new, self.old));
        warnings.extend(kind.strategy.warnings(&self.new, self.old, subresource));
        warnings.into_iter().for_each(|text| self.by.requester().warn(text));
        Ok(())
    }
}

/// Restores metadata fields that an update may omit but must not change.
fn keep_identity(new: &mut Json, old: &Json) {
    let metadata = metadata_mut(new);
    let stored = |field: &str| metadata::member(old, field).cloned();
    if metadata.text("/uid").is_empty()
        && let Some(uid) = stored("uid")
    {
        metadata.set("uid", uid);
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(time) = stored(field) {
            metadata.set(field, time);
        }
    }
    // Restore the grace period, because validation rejects any other value.
    if let Some(seconds) = stored("deletionGracePeriodSeconds")
        && metadata.get("deletionGracePeriodSeconds").is_none_or(Json::is_null)
    {
        metadata.set("deletionGracePeriodSeconds", seconds);
    }
}

/// Keeps all fields of `old` except for the status and, for most kinds, some of the metadata.
fn keep_all_but_status(new: &mut Json, old: &Json, kind: &Kind) {
    let managed = new.at("/metadata/managedFields").cloned();
    let status_fields = ["status", "apiVersion", "kind", "metadata"];
    restore_except(new, old, if kind.flags.status_keeps_metadata { &status_fields[..3] } else { &status_fields });
    if kind.flags.status_keeps_metadata
        && let Some(metadata) = new.get_mut("metadata")
    {
        match managed {
            Some(managed) => metadata.set("managedFields", managed),
            None => metadata.unset("managedFields"),
        }
    }
}

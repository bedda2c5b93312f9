//! Reads single objects and lists.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{key, metadata};
use pintle_apimachinery::request::options::ListOptions;
use pintle_kinds::{Kind, RequestTarget, indexed_field, selects_fields, unknown_field};
use pintle_meta::{FieldSelector, GroupResource, InvalidSelector, LabelSelector, ResourceVersionMatch};
use pintle_serving::offload;
use pintle_storage::continue_token::ContinueToken;
use pintle_storage::{Compacted, FeedScope, Neighbours, Objects, Range, Run, Stored};

use super::Registry;
use super::served::Served;
use crate::faults::View;

/// The number of objects that a scan examines before it yields to other tasks.
pub(crate) const SCAN_BATCH: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Parses the selectors. Use [`checked`](Self::checked) to check that the kind supports the field names.
    pub(crate) fn parse(target: &RequestTarget, options: &ListOptions) -> Outcome<Self> {
        let bad = |error: InvalidSelector| Failure::bad_request(error.to_string());
        Ok(Self {
            kind: target.kind.clone(),
            namespace: target.namespace.clone(),
            labels: options.label_selector.parse().map_err(bad)?,
            fields: options.field_selector.parse().map_err(bad)?,
        })
    }

    pub(crate) fn checked(self) -> Outcome<Self> {
        match unknown_field(&self.fields, &self.kind) {
            Some(why) => Err(Failure::bad_request(why)),
            None => Ok(self),
        }
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Returns `true` if the selectors match an object. The caller must check that the object belongs to the
    /// collection. Decodes only the fields that the selectors need.
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        let is_labelled = || {
            let labels = stored.labels();
            self.labels.matches_by(|key| labels.value(key))
        };
        // Read the labels from the stored object, because they are the same in all versions of a kind.
        (self.labels.is_everything() || is_labelled()) && selects_fields(&self.fields, &self.kind, stored)
    }

    /// Returns the cost of matching an object. A cost of 1 corresponds to the time to process one byte of a request
    /// body.
    pub(crate) fn weight(&self, stored: &Stored) -> usize {
        if self.fields.is_everything() { 0 } else { self.kind.conversion_cost(stored) }
    }

    /// Returns the cost of matching an object during a scan. The cost includes parsing the labels, because a large
    /// object can consist mostly of labels.
    pub(crate) fn search_weight(&self, stored: &Stored) -> usize {
        let labels = if self.labels.is_everything() { 0 } else { stored.weight() };
        if offload::is_long(labels) { labels.max(self.weight(stored)) } else { self.weight(stored) }
    }

    pub(crate) fn range(&self) -> Range {
        match self.single_name() {
            Some(name) => Range::object(&self.namespace, name),
            None => Range::namespace((!self.namespace.is_empty()).then_some(&self.namespace)),
        }
    }

    pub(crate) fn scope(&self) -> FeedScope {
        match self.single_name() {
            Some(name) => FeedScope::Object(key(&self.namespace, name)),
            None if !self.namespace.is_empty() => FeedScope::Namespace(self.namespace.clone()),
            None => match indexed_field(&self.fields, &self.kind) {
                Some((at, value)) => FeedScope::Field { at, value: value.into() },
                None => FeedScope::All,
            },
        }
    }

    fn single_name(&self) -> Option<&str> {
        self.name().filter(|_| !self.kind.is_namespaced() || !self.namespace.is_empty())
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }
}

/// An iterator over the objects of a snapshot that match the selectors.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    selection: Selection,
    run: Run,
}

impl Selected {
    /// Examines the next object. Returns `None` at the end of the snapshot, and `Some(None)` if the object does not
    /// match.
    pub(crate) fn scan_next(&mut self) -> Option<Option<Arc<Stored>>> {
        let (_, stored) = self.run.peek()?;
        let matched = self.selection.matches(stored).then(|| stored.clone());
        self.run.pass();
        Some(matched)
    }

    /// Returns the cost of [examining](Self::scan_next) and encoding the next object. The function `shown` computes the
    /// cost of encoding an object.
    pub(crate) fn weight(&self, shown: impl FnOnce(&Stored) -> usize) -> usize {
        self.run.peek().map_or(0, |(_, stored)| self.selection.search_weight(stored).max(shown(stored)))
    }

    /// Returns the next group of neighbouring objects without advancing the iterator. Returns `None` if the list has a
    /// label selector or a field selector.
    pub(crate) fn neighbours(&self) -> Option<Neighbours> {
        self.run.neighbours().filter(|_| self.selection.is_everything())
    }

    pub(crate) fn pass_neighbours(&mut self) {
        self.run.pass_neighbours();
    }
}

impl Iterator for Selected {
    type Item = Arc<Stored>;

    fn next(&mut self) -> Option<Arc<Stored>> {
        loop {
            if let Some(stored) = self.scan_next()? {
                return Some(stored);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct ListReply {
    pub(crate) objects: Selected,
    /// The revision of the list, or 0 for virtual objects, which have no revision.
    pub(crate) revision: u64,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
}

enum Moment {
    Newest,
    Exactly(u64),
}

impl Registry {
    pub(crate) fn get(&self, target: &RequestTarget) -> Outcome<Served> {
        match self.virtual_object(target) {
            Some(found) => found,
            None => Ok(Served::of_result(&target.kind, &self.stored(target, None)?)),
        }
    }

    /// Like [`get`](Self::get), but can read from a stale view of the store, and offloads expensive conversions.
    pub(crate) async fn get_in(&self, target: &RequestTarget, stale: Option<View>) -> Outcome<Served> {
        if let Some(found) = self.virtual_object(target) {
            return found;
        }
        let stored = self.stored(target, stale)?;
        offload::work_on(target.kind.conversion_cost(&stored)).await;
        Ok(Served::of_result(&target.kind, &stored))
    }

    /// Returns a virtual object, which is computed and never stored. Returns `None` if the kind has no virtual objects.
    fn virtual_object(&self, target: &RequestTarget) -> Option<Outcome<Served>> {
        let found =
            target.kind.strategy.computed_objects()?.into_iter().find(|object| metadata::name(object) == target.name);
        // As in kube-apiserver, this error contains the kind instead of the resource.
        let of = GroupResource::new(&target.kind.group, &target.kind.singular);
        let found = found.map(|object| Served::value(&target.kind, object));
        Some(found.ok_or_else(|| Failure::not_found(&of, &target.name)))
    }

    fn stored(&self, target: &RequestTarget, stale: Option<View>) -> Outcome<Arc<Stored>> {
        let (resource, key) = (target.resource_key(), target.key());
        let stored = match stale {
            None => self.db.get(&resource, &key),
            Some(view) => self.view(&target.kind, view)?.0.get(&key).cloned(),
        };
        stored.ok_or_else(|| Failure::not_found(&target.kind.resource(), &target.name))
    }

    /// Returns an object's size in bytes, or 0 if it does not exist.
    pub(crate) fn weight(&self, target: &RequestTarget) -> usize {
        self.db.weight(&target.resource_key(), &target.key())
    }

    fn view(&self, kind: &Kind, view: View) -> Outcome<(Objects, u64)> {
        let version = self.view_revision(kind, view);
        let objects = self.db.past(kind.resource_key(), version);
        let is_gone = |_| Failure::internal(format!("the stale view {version} is no longer kept"));
        Ok((objects.map_err(is_gone)?, version))
    }

    /// Returns one page of the matching objects. The caller must first wait for the revision that
    /// [`version_to_wait_for`](Self::version_to_wait_for) returns. Yields to other tasks during long scans.
    pub(crate) async fn list(
        &self,
        selection: &Selection,
        options: &ListOptions,
        stale: Option<View>,
    ) -> Outcome<ListReply> {
        if let Some(objects) = selection.kind.strategy.computed_objects() {
            let objects: Objects = objects.iter().map(Stored::unversioned).collect();
            return Ok(page(selection, objects.run(&Range::namespace(None)), None, 0).await);
        }
        let (at, start) = self.place_in_past(options)?;
        let cached = options.resource_version == "0" && !is_uncached(&selection.kind);
        let limit = options.limit.filter(|_| !cached).and_then(|limit| usize::try_from(limit).ok());
        let range = match &start {
            Some(start) => selection.range().starting_at(start),
            None => selection.range(),
        };
        let resource = selection.kind.resource_key().clone();
        let (objects, revision) = match (at, stale) {
            (Moment::Newest, None) => {
                let now = self.db.now();
                (now.objects(&resource), now.revision())
            }
            (Moment::Newest, Some(view)) => self.view(&selection.kind, view)?,
            (Moment::Exactly(revision), _) => {
                let past = self.db.past(&resource, revision);
                (past.map_err(|_| too_old(options, start.as_deref()))?, revision)
            }
        };
        let reply = page(selection, objects.run(&range), limit, revision).await;
        if !reply.continue_token.is_empty() {
            self.db.keep(&resource, revision, &objects);
        }
        Ok(reply)
    }

    /// Returns the revision that the store must reach before the list can be served, or `None`.
    pub(crate) fn version_to_wait_for(&self, options: &ListOptions) -> Outcome<Option<u64>> {
        if !options.continue_token.is_empty() {
            return Ok(ContinueToken::decode(&options.continue_token)?.revision);
        }
        Ok(Some(parse_version(&options.resource_version)?).filter(|version| *version > 0))
    }

    fn place_in_past(&self, options: &ListOptions) -> Outcome<(Moment, Option<String>)> {
        if !options.continue_token.is_empty() {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
            }
            let token = ContinueToken::decode(&options.continue_token)?;
            return Ok((token.revision.map_or(Moment::Newest, Moment::Exactly), Some(token.start)));
        }
        let version = parse_version(&options.resource_version)?;
        let legacy_exact = options.limit.is_some() && options.version_match.is_none();
        let exact = version > 0 && (options.version_match == Some(ResourceVersionMatch::Exact) || legacy_exact);
        Ok((if exact { Moment::Exactly(version) } else { Moment::Newest }, None))
    }
}

async fn page(selection: &Selection, run: Run, limit: Option<usize>, revision: u64) -> ListReply {
    let selected = |run| Selected { selection: selection.clone(), run };
    let mut reply =
        ListReply { objects: selected(run.clone()), revision, continue_token: String::new(), remaining: None };
    // A list with a selector for a single name has only one page.
    let Some(limit) = limit.filter(|_| selection.name().is_none()) else { return reply };
    let prefix = selection.range().prefix().len();
    let (mut rest, mut found, mut looks) = (run.clone(), 0, 0);
    while let Some((key, stored)) = rest.next() {
        offload::work_on(selection.search_weight(&stored)).await;
        found += usize::from(selection.matches(&stored));
        if found >= limit && rest.left() > 0 {
            reply.objects = selected(run.up_to(&rest));
            reply.continue_token = ContinueToken::after(&key[prefix..], revision).encode();
            reply.remaining = selection.is_everything().then(|| rest.left());
            break;
        }
        looks += 1;
        if looks % SCAN_BATCH == 0 {
            tokio::task::yield_now().await;
        }
    }
    reply
}

fn too_old(options: &ListOptions, start: Option<&str>) -> Failure {
    let Some(start) = start.filter(|_| !options.continue_token.is_empty()) else {
        return Failure::expired("The resourceVersion for the provided list is too old.");
    };
    let mut failure = Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
         the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
         deleted between the time the first chunk was returned and now may show up in the list.",
    );
    failure.status.metadata.continue_token = ContinueToken { revision: None, start: start.into() }.encode();
    failure
}

/// Returns `true` if kube-apiserver reads the objects of this kind only from etcd, and never from the watch cache.
pub(crate) fn is_uncached(kind: &Kind) -> bool {
    kind.flags.is_report
}

/// Parses the resource version of a list request as an integer. An empty resource version means 0.
pub(crate) fn parse_version(text: &str) -> Outcome<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    parse_number(text).map_err(|error| {
        let why = &error.status.message;
        Failure::bad_request(format!("invalid resource version: resourceVersion: Invalid value: {text:?}: {why}"))
    })
}

/// Parses a number like Go's `strconv.ParseUint`. For invalid input, returns a failure with status 500 and Go's error
/// message.
pub(crate) fn parse_number(text: &str) -> Outcome<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = match text.parse() {
        Ok(number) if digits => return Ok(number),
        _ if digits => "value out of range",
        _ => "invalid syntax",
    };
    Err(Failure::plain(500, format!("strconv.ParseUint: parsing {text:?}: {why}")))
}

pub(crate) fn compacted(error: Compacted, requested: u64) -> Failure {
    Failure::expired(format!("too old resource version: {requested} ({})", error.oldest))
}

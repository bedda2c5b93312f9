//! GET of one object and of lists.

use std::sync::Arc;

use pintle_meta::{FieldSelector, InvalidSelector, LabelSelector, ResourceVersionMatch};

use super::Registry;
use super::continue_token::ContinueToken;
use super::served::Served;
use crate::failure::{Failure, Outcome};
use crate::faults::View;
use crate::kinds::{GroupResource, Kind, RequestTarget, indexed_field, selects_fields, unknown_field};
use crate::object::metadata;
use crate::offload;
use crate::request::options::ListOptions;
use crate::store::{Compacted, FeedScope, Neighbours, Objects, Range, ResourceKey, Run, Stored, key};

/// After so many objects that are not meant, who looks through them lets others work.
pub(crate) const LOOKS: usize = 256;

/// Which objects of a collection are meant.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads the selectors' syntax.
    pub(crate) fn parse(target: &RequestTarget, options: &ListOptions) -> Outcome<Self> {
        let bad = |error: InvalidSelector| Failure::bad_request(error.to_string());
        Ok(Self {
            kind: target.kind.clone(),
            namespace: target.namespace.clone(),
            labels: options.label_selector.parse().map_err(bad)?,
            fields: options.field_selector.parse().map_err(bad)?,
        })
    }

    /// Holds the field labels against those that the kind has.
    pub(crate) fn checked(self) -> Outcome<Self> {
        match unknown_field(&self.fields, &self.kind) {
            Some(why) => Err(Failure::bad_request(why)),
            None => Ok(self),
        }
    }

    /// Whether every object of the collection is meant.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an object among its keys is meant. It is looked at no further than the selectors do.
    pub(crate) fn matches(&self, stored: &Stored) -> bool {
        let is_labelled = || {
            let labels = stored.labels();
            self.labels.matches_by(|key| labels.value(key))
        };
        // All versions of a kind show the same labels.
        (self.labels.is_everything() || is_labelled()) && selects_fields(&self.fields, &self.kind, stored)
    }

    /// What it takes to find out whether an object is meant, as bytes of a body that takes as long.
    pub(crate) fn weight(&self, stored: &Stored) -> usize {
        if self.fields.is_everything() { 0 } else { self.kind.showing_weight(stored) }
    }

    /// The same of one among many: labels may be all that there is of a large object.
    pub(crate) fn search_weight(&self, stored: &Stored) -> usize {
        let labels = if self.labels.is_everything() { 0 } else { stored.weight() };
        if offload::is_long(labels) { labels.max(self.weight(stored)) } else { self.weight(stored) }
    }

    /// The keys among which the objects are.
    pub(crate) fn range(&self) -> Range {
        match self.target() {
            Some(name) => Range::object(&self.namespace, name),
            None => Range::namespace((!self.namespace.is_empty()).then_some(&self.namespace)),
        }
    }

    /// What of the resource the objects are in.
    pub(crate) fn scope(&self) -> FeedScope {
        match self.target() {
            Some(name) => FeedScope::Object(key(&self.namespace, name)),
            None if !self.namespace.is_empty() => FeedScope::Namespace(self.namespace.clone()),
            None => match indexed_field(&self.fields, &self.kind) {
                Some((at, value)) => FeedScope::Field { at, value: value.into() },
                None => FeedScope::All,
            },
        }
    }

    /// The name of the one object that can be meant, if so.
    fn target(&self) -> Option<&str> {
        self.name().filter(|_| !self.kind.namespaced() || !self.namespace.is_empty())
    }

    /// The one name that is asked for, if so.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }
}

/// The objects that are meant, as they were at one moment. They are looked for as they are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    selection: Selection,
    run: Run,
}

impl Selected {
    /// Looks at the next one: whether it is meant. None at the end.
    pub(crate) fn look(&mut self) -> Option<Option<Arc<Stored>>> {
        let (_, stored) = self.run.peek()?;
        let meant = self.selection.matches(stored).then(|| stored.clone());
        self.run.pass();
        Some(meant)
    }

    /// What it takes to [look](Self::look) at the next one, and to show it where that takes what `shown` says.
    pub(crate) fn weight(&self, shown: impl FnOnce(&Stored) -> usize) -> usize {
        self.run.peek().map_or(0, |(_, stored)| self.selection.search_weight(stored).max(shown(stored)))
    }

    /// The next ones, if they are neighbours, and all are meant. They stay.
    pub(crate) fn neighbours(&self) -> Option<Neighbours> {
        self.run.neighbours().filter(|_| self.selection.is_everything())
    }

    /// Passes over what [`neighbours`](Self::neighbours) has told.
    pub(crate) fn pass_neighbours(&mut self) {
        self.run.pass_neighbours();
    }
}

impl Iterator for Selected {
    type Item = Arc<Stored>;

    fn next(&mut self) -> Option<Arc<Stored>> {
        loop {
            if let Some(stored) = self.look()? {
                return Some(stored);
            }
        }
    }
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct ListReply {
    pub(crate) objects: Selected,
    /// 0 where there is none.
    pub(crate) revision: u64,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
}

/// Which state a list shows.
enum Moment {
    Newest,
    Exactly(u64),
}

impl Registry {
    /// One object, as its kind shows it.
    pub(crate) fn get(&self, target: &RequestTarget) -> Outcome<Served> {
        match self.made_up(target) {
            Some(found) => found,
            None => Ok(Served::stored(&target.kind, &self.stored(target, None)?)),
        }
    }

    /// The same as it is now, or as a stale view has it; apart, where it takes long to make what is shown.
    pub(crate) async fn get_in(&self, target: &RequestTarget, stale: Option<View>) -> Outcome<Served> {
        if let Some(found) = self.made_up(target) {
            return found;
        }
        let stored = self.stored(target, stale)?;
        offload::work_on(target.kind.showing_weight(&stored)).await;
        Ok(Served::stored(&target.kind, &stored))
    }

    /// One of the objects that are never stored, if the kind has such.
    fn made_up(&self, target: &RequestTarget) -> Option<Outcome<Served>> {
        let found =
            target.kind.strategy.computed_objects()?.into_iter().find(|object| metadata::name(object) == target.name);
        // A real server says it of the kind and not of the resource.
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

    /// How many bytes an object takes, if it is there.
    pub(crate) fn weight(&self, target: &RequestTarget) -> usize {
        self.db.weight(&target.resource_key(), &target.key())
    }

    /// A resource as a stale view has it.
    fn view(&self, kind: &Kind, view: View) -> Outcome<(Objects, u64)> {
        let version = self.seen(kind, view);
        let objects = self.db.past(&kind.store.to_string().into(), version);
        Ok((objects.map_err(|_| view_is_gone(version))?, version))
    }

    /// A page of the objects that are meant. `wait_for`, what [`version_to_wait_for`](Self::version_to_wait_for) told, has been waited for.
    ///
    /// Of very many objects few may be meant: others have their turns meanwhile.
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
        let resource = ResourceKey::from(selection.kind.store.to_string());
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

    /// The revision that a list has to wait for, if it asks for one.
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

/// Takes a page from objects in key order.
async fn page(selection: &Selection, run: Run, limit: Option<usize>, revision: u64) -> ListReply {
    let selected = |run| Selected { selection: selection.clone(), run };
    let mut reply =
        ListReply { objects: selected(run.clone()), revision, continue_token: String::new(), remaining: None };
    // Who asks for one name gets no pages.
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
        if looks % LOOKS == 0 {
            tokio::task::yield_now().await;
        }
    }
    reply
}

/// What is answered where a test wants a view that nobody keeps.
fn view_is_gone(version: u64) -> Failure {
    Failure::internal(format!("the stale view {version} is no longer kept"))
}

/// What a list answers that asks for a forgotten revision.
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

/// Whether a real server reads the kind from its storage each time.
pub(crate) fn is_uncached(kind: &Kind) -> bool {
    kind.strategy.is_report()
}

/// A resource version of a list: a whole number; empty stands for 0.
pub(crate) fn parse_version(text: &str) -> Outcome<u64> {
    if text.is_empty() {
        return Ok(0);
    }
    parse_number(text).map_err(|error| {
        let why = &error.status.message;
        Failure::bad_request(format!("invalid resource version: resourceVersion: Invalid value: {text:?}: {why}"))
    })
}

/// A number as Go's `strconv.ParseUint` reads it; a failure is 500 and in its words.
pub(crate) fn parse_number(text: &str) -> Outcome<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let why = match text.parse() {
        Ok(number) if digits => return Ok(number),
        _ if digits => "value out of range",
        _ => "invalid syntax",
    };
    Err(Failure::plain(500, format!("strconv.ParseUint: parsing {text:?}: {why}")))
}

/// The store's complaint, where nothing says better.
pub(crate) fn compacted(error: Compacted, asked: u64) -> Failure {
    Failure::expired(format!("too old resource version: {asked} ({})", error.oldest))
}

//! GET of one object and of lists.

use std::collections::VecDeque;
use std::sync::Arc;

use pintle_meta::{FieldSelector, InvalidSelector, LabelSelector, ResourceVersionMatch};
use serde_json::Value;

use super::components;
use super::object::{Place, Served};
use super::token::Token;
use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::kinds::Kind;
use crate::request::options::ListOptions;
use crate::selector::{selects, selects_fields, unknown_field};
use crate::store::{Compacted, Key, Range, Store, Stored};

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
    pub(crate) fn parse(place: &Place, options: &ListOptions) -> Outcome<Self> {
        let bad = |error: InvalidSelector| Failure::bad_request(error.to_string());
        Ok(Self {
            kind: place.kind.clone(),
            namespace: place.namespace.clone(),
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

    /// Whether an object, as its kind shows it, is meant.
    pub(crate) fn matches(&self, shown: &Value) -> bool {
        selects(&self.labels, shown) && selects_fields(&self.fields, &self.kind, shown)
    }

    /// The keys among which the objects are.
    pub(crate) fn range(&self) -> Range {
        Range::namespace((!self.namespace.is_empty()).then_some(&self.namespace))
    }

    /// The one name that is asked for, if so.
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct ListReply {
    pub(crate) items: Vec<Served>,
    /// 0 where there is none.
    pub(crate) revision: u64,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
}

/// Which state a list shows.
enum At {
    Newest,
    Exactly(u64),
}

impl Api {
    /// One object, as its kind shows it.
    pub(crate) fn get(&self, place: &Place) -> Outcome<Served> {
        self.get_in(place, None)
    }

    /// The same as it is now, or as a stale view has it.
    pub(crate) fn get_in(&self, place: &Place, stale: Option<u64>) -> Outcome<Served> {
        if components::are_meant(&place.kind) {
            return components::get(place);
        }
        let (resource, key) = (place.resource_key(), place.key());
        let stored = self.db.read(|store| match stale {
            None => Ok(store.get(&resource, &key).cloned()),
            Some(version) => match store.past(&resource, version) {
                Ok(past) => Ok(past.get(&key).cloned()),
                Err(_) => Err(view_is_gone(version)),
            },
        })?;
        let stored = stored.ok_or_else(|| Failure::not_found(&place.kind.resource(), &place.name))?;
        Ok(Served::stored(&place.kind, &stored))
    }

    /// A page of the objects that are meant. `wait_for`, what [`version_to_wait_for`] told, has been waited for.
    pub(crate) fn list(&self, selection: &Selection, options: &ListOptions, stale: Option<u64>) -> Outcome<ListReply> {
        if components::are_meant(&selection.kind) {
            return Ok(components::list(selection));
        }
        let (at, start) = self.place_in_past(selection, options)?;
        let cached = options.resource_version == "0" && !is_uncached(&selection.kind);
        let limit = options.limit.filter(|_| !cached).and_then(|limit| usize::try_from(limit).ok());
        let range = match &start {
            Some(start) => selection.range().starting_at(start),
            None => selection.range(),
        };
        let resource = selection.kind.store.to_string();
        self.db.read(|store| match (at, stale) {
            (At::Newest, None) => {
                let revision = store.revision();
                Ok(page(selection, store.range(&resource, &range), limit, revision))
            }
            (At::Newest, Some(version)) => {
                let past = store.past(&resource, version).map_err(|_| view_is_gone(version))?;
                Ok(page(selection, past.range(&range), limit, version))
            }
            (At::Exactly(revision), _) => {
                let past = store.past(&resource, revision).map_err(|_| too_old(options, start.as_deref()))?;
                Ok(page(selection, past.range(&range), limit, revision))
            }
        })
    }

    /// The revision that a list has to wait for, if it asks for one.
    pub(crate) fn version_to_wait_for(&self, options: &ListOptions) -> Outcome<Option<u64>> {
        if !options.continue_token.is_empty() {
            return Ok(Token::decode(&options.continue_token)?.revision);
        }
        Ok(Some(parse_version(&options.resource_version)?).filter(|version| *version > 0))
    }

    fn place_in_past(&self, selection: &Selection, options: &ListOptions) -> Outcome<(At, Option<String>)> {
        if !options.continue_token.is_empty() {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Failure::bad_request("specifying resource version is not allowed when using continue"));
            }
            let token = Token::decode(&options.continue_token)?;
            return Ok((token.revision.map_or(At::Newest, At::Exactly), Some(token.start)));
        }
        let version = parse_version(&options.resource_version)?;
        let legacy_exact = options.limit.is_some() && options.version_match.is_none();
        let exact = version > 0 && (options.version_match == Some(ResourceVersionMatch::Exact) || legacy_exact);
        let _ = selection;
        Ok((if exact { At::Exactly(version) } else { At::Newest }, None))
    }
}

/// Takes a page from objects in key order.
fn page<'a>(
    selection: &Selection,
    objects: impl Iterator<Item = (&'a Key, &'a Arc<Stored>)>,
    limit: Option<usize>,
    revision: u64,
) -> ListReply {
    let mut reply = ListReply { items: Vec::new(), revision, continue_token: String::new(), remaining: None };
    let only_name = selection.name();
    let prefix = selection.range().prefix().len();
    let mut objects = objects.peekable();
    while let Some((key, stored)) = objects.next() {
        let shown = Served::stored(&selection.kind, stored);
        if selection.matches(&shown.value) {
            reply.items.push(shown);
        }
        let full = limit.is_some_and(|limit| reply.items.len() >= limit);
        if full && only_name.is_none() && objects.peek().is_some() {
            reply.continue_token = Token::after(&key[prefix..], revision).encode();
            if selection.is_everything() {
                reply.remaining = Some(objects.count());
            }
            break;
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
    failure.status.metadata.continue_token = Token { revision: None, start: start.into() }.encode();
    failure
}

/// Whether a real server reads the kind from its storage each time: both kinds of events, and nothing else.
pub(crate) fn is_uncached(kind: &Kind) -> bool {
    kind.store.resource == "events" && kind.store.group.is_empty()
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

/// The objects that are meant, as they are now.
pub(crate) fn present(store: &Store, selection: &Selection) -> VecDeque<Arc<Stored>> {
    let resource = selection.kind.store.to_string();
    let range = selection.range();
    let all = store.range(&resource, &range).map(|(_, stored)| stored);
    let meant =
        |stored: &&Arc<Stored>| selection.is_everything() || selection.matches(&selection.kind.shown_stored(stored));
    all.filter(meant).cloned().collect()
}

//! Implements lists and their pages.

use std::ops::Bound;

use pintle_meta::{
    ApiError, FieldSelector, LabelSelector, ListMeta, ListOptions, ListPart, ObjectKey, ResourceVersionMatch,
};

use super::select::Selection;
use super::{Store, errors};

impl Store {
    /// Returns the parts of a page, starting with the metadata, followed by the items.
    pub(crate) fn list(&self, namespace: Option<&str>, options: &ListOptions) -> Result<Vec<ListPart>, ApiError> {
        let selection = self.selection(namespace, &options.label_selector, &options.field_selector)?;
        let (revision, after) = self.place(options)?;
        let whole = options.limit == 0 || (options.resource_version == "0" && self.watch_cache);
        let limit = if whole { usize::MAX } else { options.limit as usize };
        let state = self.state_at(revision);
        let start = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = state.range((start, Bound::Unbounded)).filter(|(_, stored)| selection.selects(&stored.json));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let left = rest.count();
        let next = page.last().filter(|_| left > 0).map(|(last, _)| format!("{revision}:{last}"));
        let metadata = ListMeta {
            resource_version: revision.to_string(),
            continue_token: next.unwrap_or_default(),
            // For a list with a selector, omit the number of remaining items. Servers also omit it, because they would
            // have to read all remaining objects.
            remaining_item_count: (left > 0 && selection.is_everything()).then_some(left as i64),
        };
        let items = page.into_iter().map(|(_, stored)| ListPart::Item(stored.bytes.clone().into()));
        Ok([ListPart::Metadata(metadata)].into_iter().chain(items).collect())
    }

    pub(super) fn selection(
        &self,
        namespace: Option<&str>,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<Selection, ApiError> {
        Selection::new(&self.resource, &self.selectable_fields, namespace, labels, fields)
    }

    /// Returns the revision of the list, and the last key of the previous page.
    fn place(&self, options: &ListOptions) -> Result<(u64, Option<ObjectKey>), ApiError> {
        let token = &options.continue_token;
        if token.is_empty() {
            return Ok((self.list_revision(options)?, None));
        }
        if !matches!(&*options.resource_version, "" | "0") {
            return Err(errors::bad_request("specifying resource version is not allowed when using continue"));
        }
        let read = token.split_once(':').and_then(|(revision, key)| Some((revision.parse().ok()?, key.parse().ok()?)));
        let Some((revision, key)) = read else {
            return Err(errors::bad_request(format!("continue key is not valid: {token:?}")));
        };
        if revision < self.compacted {
            let message = "The provided continue parameter is too old to display a consistent list result.";
            return Err(errors::expired(message));
        }
        Ok((revision, Some(key)))
    }

    fn list_revision(&self, options: &ListOptions) -> Result<u64, ApiError> {
        let asked = self.revision_of(&options.resource_version)?;
        if asked > self.revision {
            return Err(errors::too_large(asked, self.revision));
        }
        let exact = match options.resource_version_match {
            Some(how) => how == ResourceVersionMatch::Exact,
            // For compatibility with old clients, a limit without `resourceVersionMatch` means an exact match of the
            // revision.
            None => options.limit > 0 && asked > 0,
        };
        if exact && asked < self.compacted {
            return Err(errors::expired(format!("The provided resource version {asked} is too old")));
        }
        Ok(if exact { asked } else { self.revision })
    }

    /// Parses a request's `resourceVersion`. An empty string means 0.
    pub(super) fn revision_of(&self, text: &str) -> Result<u64, ApiError> {
        let unreadable = |_| errors::bad_request(format!("resourceVersion: Invalid value: {text:?}"));
        if text.is_empty() { Ok(0) } else { text.parse().map_err(unreadable) }
    }
}

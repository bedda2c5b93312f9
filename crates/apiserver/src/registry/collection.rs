//! DELETE of a collection.

use pintle_meta::ResourceVersionMatch;

use super::Registry;
use super::list::{ListReply, Selection};
use crate::failure::Outcome;
use crate::kinds::Place;
use crate::request::options::{DeleteOptions, ListOptions};

impl Registry {
    /// Deletes a page of the objects that are meant; answers them as they were listed. Objects that go meanwhile are passed
    /// over; the first other failure ends it, with what was deleted before staying so.
    pub(crate) fn delete_collection(
        &self,
        selection: &Selection,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Outcome<ListReply> {
        let listed = self.list(selection, &paged(list), None)?;
        for item in listed.objects.clone() {
            let place = Place::new(selection.kind.clone(), &item.namespace(), &item.name());
            match self.delete(&place, options) {
                Err(failure) if failure.is_not_found() => (),
                Err(failure) => return Err(failure),
                Ok(_) => (),
            }
        }
        Ok(listed)
    }
}

/// A list that is deleted is read in pages even if no limit was asked for, and a limit makes a version the exact one.
fn paged(list: &ListOptions) -> ListOptions {
    let version = !matches!(list.resource_version.as_str(), "" | "0") && list.continue_token.is_empty();
    let mut list = list.clone();
    if version && list.version_match.is_none() {
        list.version_match = Some(ResourceVersionMatch::Exact);
    }
    list
}

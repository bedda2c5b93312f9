//! Writes that go past the rules for clients: what the server itself does to an object.

use pintle_json::Json;

use super::{Registry, delete};
use crate::failure::{Failure, Outcome};
use crate::kinds::Place;
use crate::object::metadata;
use crate::request::options::How;
use crate::store::Expect;

impl Registry {
    /// Changes the stored object at `place`; one that is going, and is held by nothing then, is removed. Where `change` fails, or only
    /// tries, nothing is written. Answers the revision at which it was written, if it was.
    pub(crate) fn rewrite(
        &self,
        place: &Place,
        dry_run: bool,
        change: impl Fn(&mut Json) -> Outcome<()>,
    ) -> Outcome<Option<u64>> {
        let (resource, key) = (place.resource_key(), place.key());
        loop {
            let Some(stored) = self.db.get(&resource, &key) else {
                return Err(Failure::not_found(&place.kind.resource(), &place.name));
            };
            let old = stored.decode();
            let mut new = old.clone();
            change(&mut new)?;
            let written = match () {
                () if dry_run => return Ok(None),
                () if delete::is_due(&place.kind, &new) => self.db.remove(&resource, &key, stored.revision()),
                () if !metadata::differ(&new, &old) => return Ok(None),
                () => self.commit(place, Expect::At(stored.revision()), How::Patch, new, Vec::new(), |_| true)?,
            };
            if let Ok(change) = written {
                return Ok(Some(change.revision()));
            }
        }
    }
}

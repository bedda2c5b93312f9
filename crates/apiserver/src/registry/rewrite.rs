//! Writes that go past the rules for clients: what the server itself does to an object.

use pintle_json::Json;

use super::{Registry, delete};
use crate::failure::{Failure, Outcome};
use crate::kinds::RequestTarget;
use crate::object::metadata;
use crate::request::options::How;
use crate::store::Expect;

impl Registry {
    /// Changes the stored object at `target`; one that is going, and is held by nothing then, is removed. Where `change` fails, or only
    /// tries, nothing is written. Answers the revision at which it was written, if it was.
    pub(crate) fn rewrite(
        &self,
        target: &RequestTarget,
        dry_run: bool,
        change: impl Fn(&mut Json) -> Outcome<()>,
    ) -> Outcome<Option<u64>> {
        let (resource, key) = (target.resource_key(), target.key());
        loop {
            let Some(stored) = self.db.get(&resource, &key) else {
                return Err(Failure::not_found(&target.kind.resource(), &target.name));
            };
            let old = stored.decode();
            let mut new = old.clone();
            change(&mut new)?;
            let written = match () {
                () if dry_run => return Ok(None),
                () if delete::is_due(&target.kind, &new) => self.db.remove(&resource, &key, stored.revision()),
                () if !metadata::differ(&new, &old) => return Ok(None),
                () => self.commit(target, Expect::At(stored.revision()), How::Patch, new, Vec::new(), |_| true)?,
            };
            if let Ok(change) = written {
                return Ok(Some(change.revision()));
            }
        }
    }
}

//! The server's own writes, which skip the rules for client writes.

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::options::How;
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_storage::Expect;

use super::{Registry, delete};

impl Registry {
    /// Changes the object at `target`. Removes the changed object instead if it is being deleted and nothing delays its
    /// removal. Writes nothing if `change` fails or `dry_run` is set. Returns the revision of the write, or `None` if
    /// nothing was written.
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
            let differs = metadata::differ(&new, &old);
            let new = delete::versioned(new, &stored);
            let result = match () {
                () if dry_run => return Ok(None),
                () if delete::is_removable(&target.kind, &new) => self.db.remove(&resource, &key, stored.revision()),
                () if !differs => return Ok(None),
                () => self.commit(target, Expect::At(stored.revision()), How::Patch, new, Vec::new(), |_| true)?,
            };
            if let Ok(change) = result {
                return Ok(Some(change.revision()));
            }
        }
    }
}

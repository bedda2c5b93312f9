//! Writes that go past the rules for clients: what the server itself does to an object.

use pintle_json::Json;

use super::Registry;
use crate::failure::{Failure, Outcome};
use crate::kinds::Place;
use crate::object::{metadata, metadata_mut};
use crate::store::Expect;

impl Registry {
    /// Changes the stored object at `place`; where `change` fails, or only tries, nothing is written. Answers the new value.
    pub(crate) fn rewrite(
        &self,
        place: &Place,
        dry_run: bool,
        change: impl Fn(&mut Json) -> Outcome<()>,
    ) -> Outcome<Json> {
        let resource = place.resource_key();
        loop {
            let Some(stored) = self.db.get(&resource, &place.key()) else {
                return Err(Failure::not_found(&place.kind.resource(), &place.name));
            };
            let old = stored.decode();
            let mut new = old.clone();
            change(&mut new)?;
            if dry_run || !metadata::differ(&new, &old) {
                return Ok(new);
            }
            let committed = self.commit(place, Expect::At(stored.revision()), new.clone(), Vec::new(), |_| true)?;
            if let Ok(change) = committed {
                metadata_mut(&mut new).insert("resourceVersion", change.revision.to_string().into());
                return Ok(new);
            }
        }
    }

    /// Sets a condition in an object's status. The time is that of the last change of the condition's status.
    pub(crate) fn set_condition(&self, object: &mut Json, condition: Json) {
        let status = match object.as_object_mut() {
            Some(object) => object.entry("status").or_insert_with(|| Json::Object(Default::default())),
            None => return,
        };
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let at = conditions.iter().position(|known| known["type"] == condition["type"]);
        let mut condition = condition;
        let same = at.and_then(|at| conditions.get(at)).filter(|known| known["status"] == condition["status"]);
        condition["lastTransitionTime"] = match same {
            Some(known) => known["lastTransitionTime"].clone(),
            None => self.clock.now_text().into(),
        };
        match at {
            Some(at) => conditions[at] = condition,
            None => conditions.push(condition),
        }
        status["conditions"] = conditions.into();
    }
}

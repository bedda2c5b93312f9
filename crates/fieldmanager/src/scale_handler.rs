//! The `managedFields` entries of `/scale`. Clients write a Scale object, but the server stores only its number of
//! replicas, in a field of another object.

use pintle_json::{Json, json};

use super::managers::{Managed, ManagerId, Managers};
use super::path_element::PathElement;
use super::set::Set;

const SCALE: &str = "autoscaling/v1";

/// Returns the `managedFields` of an object's scale before a write of the scale. A manager that owns the replicas field
/// of the object also owns the replicas field of the scale. `replicas` is the path of the object's replicas field, such
/// as `.spec.replicas`.
pub fn scale_entries(object: &Json, replicas: &str) -> Json {
    let path = steps(replicas);
    let mut shown = Managers::default();
    let owners = Managers::read(object).unwrap_or_default();
    for (id, managed) in owners.0.into_iter().filter(|(_, managed)| managed.set.contains(&path)) {
        let managed = Managed { api_version: SCALE.into(), set: one(&steps(".spec.replicas")), time: managed.time };
        shown.0.insert(as_scale(id), managed);
    }
    let mut scale = json!({});
    shown.write(&mut scale);
    scale["metadata"]["managedFields"].clone()
}

/// Transfers the `managedFields` entries of a scale to `object` after a write of `/scale`. `object` must contain its
/// `managedFields` entries from before the write.
///
/// If a manager owns the replicas field through an update, the field moves to a separate entry without a time, because
/// entries for the scale have a different version. As in kube-apiserver, a write of the scale therefore changes the
/// entries even if the number of replicas stays the same. If the manager then has two update entries, the next write of
/// the scale reads only the last entry.
pub fn keep_scale_entries(object: &mut Json, scale: &Json, replicas: &str, api_version: &str) {
    let path = steps(replicas);
    let mut written = Managers::read(scale).unwrap_or_default();
    let mut kept = Managers::default();
    for (id, mut managed) in Managers::read(object).unwrap_or_default().0 {
        if managed.set.contains(&path) && written.0.remove(&id).is_none() {
            managed.set.subtract(&one(&path));
        }
        if !managed.set.is_empty() {
            kept.0.insert(id, managed);
        }
    }
    for id in
        written.0.into_iter().filter(|(_, managed)| managed.set.contains(&steps(".spec.replicas"))).map(|(id, _)| id)
    {
        // Keep the other fields of an existing entry for this manager.
        let rest = kept.0.get(&id).map(|known| known.set.clone()).unwrap_or_default();
        let time = kept.0.get(&id).and_then(|known| known.time.clone());
        kept.0.insert(id, Managed { api_version: api_version.into(), set: rest.union(&one(&path)), time });
    }
    kept.write(object);
}

fn as_scale(id: ManagerId) -> ManagerId {
    ManagerId { api_version: if id.applied { String::new() } else { SCALE.into() }, ..id }
}

fn one(path: &[PathElement]) -> Set {
    let mut set = Set::default();
    set.insert(path);
    set
}

fn steps(path: &str) -> Vec<PathElement> {
    path.split('.').filter(|part| !part.is_empty()).map(|part| PathElement::Field(part.into())).collect()
}

//! Which events are worth a reconciliation.
//!
//! A predicate sees the old and the new state. Those here that compare the two let additions and deletions pass, so that no
//! deletion is ever missed for being no change of the spec.

use pintle_informer::ResourceEvent;
use pintle_meta::{Metadata, Object};

/// Says which events pass. Any function of an event is one.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_controller::predicate::{GenerationChanged, LabelsChanged, Predicate, and, not, or};
/// use pintle_informer::ResourceEvent;
/// use pintle_meta::{ObjectMeta, PartialObject};
///
/// let old = Arc::new(PartialObject { metadata: ObjectMeta::new("team-a", "web"), ..PartialObject::default() });
/// let mut new = PartialObject::clone(&old);
/// new.metadata.generation = 2;
/// let event = ResourceEvent::Updated { old, new: Arc::new(new) };
///
/// assert!(or(GenerationChanged, LabelsChanged).allows(&event));
/// assert!(and(GenerationChanged, not(LabelsChanged)).allows(&event));
/// let in_team_b = |event: &ResourceEvent<PartialObject>| event.object().metadata.namespace == "team-b";
/// assert!(!and(GenerationChanged, in_team_b).allows(&event));
/// ```
pub trait Predicate<T>: Send + Sync + 'static {
    /// Whether `event` is to be handled.
    fn allows(&self, event: &ResourceEvent<T>) -> bool;
}

impl<T, F: Fn(&ResourceEvent<T>) -> bool + Send + Sync + 'static> Predicate<T> for F {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self(event)
    }
}

/// Passes updates that change the desired state, which is what `metadata.generation` counts, or that begin a deletion.
///
/// For kinds whose server keeps no generation (ConfigMap, Secret, Service...) it would hide all updates: use
/// [`ResourceVersionChanged`] there. A change of labels or annotations is not counted either.
///
/// # Examples
///
/// ```
/// use pintle_controller::Kind;
/// use pintle_controller::predicate::{GenerationChanged, LabelsChanged, or};
/// use pintle_informer::SharedInformer;
/// use pintle_meta::PartialObject;
///
/// fn changed(pods: &SharedInformer<PartialObject>) -> Kind<PartialObject> {
///     Kind::of(pods).when(or(GenerationChanged, LabelsChanged))
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GenerationChanged;

/// Passes updates that change anything: all but the reminders of a resync.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceVersionChanged;

/// Passes updates that change a label.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabelsChanged;

/// Passes updates that change an annotation.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnotationsChanged;

impl<T: Object> Predicate<T> for GenerationChanged {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        differs(event, |old, new| old.generation() != new.generation() || old.is_terminating() != new.is_terminating())
    }
}

impl<T: Object> Predicate<T> for ResourceVersionChanged {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        differs(event, |old, new| old.resource_version() != new.resource_version())
    }
}

impl<T: Object> Predicate<T> for LabelsChanged {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        differs(event, |old, new| old.labels() != new.labels())
    }
}

impl<T: Object> Predicate<T> for AnnotationsChanged {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        differs(event, |old, new| old.annotations() != new.annotations())
    }
}

/// Passes what both pass.
///
/// # Examples
///
/// ```
/// use pintle_controller::predicate::{Predicate, ResourceVersionChanged, and};
/// use pintle_informer::ResourceEvent;
/// use pintle_meta::PartialObject;
///
/// let deleted = ResourceEvent::Deleted { object: PartialObject::default().into(), final_state_known: true };
/// let predicate = and(ResourceVersionChanged, |event: &ResourceEvent<PartialObject>| !event.is_deleted());
/// assert!(!predicate.allows(&deleted));
/// ```
pub fn and<A, B>(a: A, b: B) -> And<A, B> {
    And(a, b)
}

/// Passes what either passes.
///
/// # Examples
///
/// ```
/// use pintle_controller::predicate::{LabelsChanged, Predicate, or};
/// use pintle_informer::ResourceEvent;
/// use pintle_meta::PartialObject;
///
/// let deleted = ResourceEvent::Deleted { object: PartialObject::default().into(), final_state_known: true };
/// let predicate = or(LabelsChanged, |event: &ResourceEvent<PartialObject>| event.is_deleted());
/// assert!(predicate.allows(&deleted));
/// ```
pub fn or<A, B>(a: A, b: B) -> Or<A, B> {
    Or(a, b)
}

/// Passes what the other does not. Mind that this turns the passing of additions and deletions around too.
///
/// # Examples
///
/// ```
/// use pintle_controller::predicate::{Predicate, not};
/// use pintle_informer::ResourceEvent;
/// use pintle_meta::PartialObject;
///
/// let deleted = ResourceEvent::Deleted { object: PartialObject::default().into(), final_state_known: true };
/// let predicate = not(|event: &ResourceEvent<PartialObject>| event.is_deleted());
/// assert!(!predicate.allows(&deleted));
/// ```
pub fn not<A>(a: A) -> Not<A> {
    Not(a)
}

/// See [`and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

/// See [`or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// See [`not`].
#[derive(Clone, Copy, Debug)]
pub struct Not<A>(A);

impl<T, A: Predicate<T>, B: Predicate<T>> Predicate<T> for And<A, B> {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows(event) && self.1.allows(event)
    }
}

impl<T, A: Predicate<T>, B: Predicate<T>> Predicate<T> for Or<A, B> {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows(event) || self.1.allows(event)
    }
}

impl<T, A: Predicate<T>> Predicate<T> for Not<A> {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        !self.0.allows(event)
    }
}

fn differs<T: Object>(event: &ResourceEvent<T>, differs: impl Fn(&dyn Metadata, &dyn Metadata) -> bool) -> bool {
    match event {
        ResourceEvent::Updated { old, new } => differs(old.metadata(), new.metadata()),
        ResourceEvent::Added { .. } | ResourceEvent::Deleted { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_meta::{DynamicObject, ObjectMeta, Time};

    use super::*;

    fn object(change: impl FnOnce(&mut ObjectMeta)) -> Arc<DynamicObject> {
        let mut metadata = ObjectMeta::new("ns", "name");
        change(&mut metadata);
        Arc::new(DynamicObject { metadata, ..DynamicObject::default() })
    }

    fn update(change: impl FnOnce(&mut ObjectMeta)) -> ResourceEvent<DynamicObject> {
        ResourceEvent::Updated { old: object(|_| {}), new: object(change) }
    }

    fn check(event: &ResourceEvent<DynamicObject>, generation: bool, version: bool, labels: bool, annotations: bool) {
        let passed = (
            GenerationChanged.allows(event),
            ResourceVersionChanged.allows(event),
            LabelsChanged.allows(event),
            AnnotationsChanged.allows(event),
        );
        assert_eq!(passed, (generation, version, labels, annotations), "{event:?}");
    }

    #[test]
    fn an_update_passes_by_what_it_changes() {
        check(&update(|_| {}), false, false, false, false);
        check(&update(|meta| meta.generation = 2), true, false, false, false);
        check(&update(|meta| meta.resource_version = "8".into()), false, true, false, false);
        check(&update(|meta| drop(meta.labels.insert("a".into(), "b".into()))), false, false, true, false);
        check(&update(|meta| drop(meta.annotations.insert("a".into(), "b".into()))), false, false, false, true);
        let begun = Some(Time("2026-11-20T08:30:00Z".parse().unwrap()));
        check(&update(|meta| meta.deletion_timestamp = begun), true, false, false, false);
    }

    #[test]
    fn additions_and_deletions_pass_all_comparisons() {
        for final_state_known in [true, false] {
            check(&ResourceEvent::Deleted { object: object(|_| {}), final_state_known }, true, true, true, true);
        }
        check(&ResourceEvent::Added { object: object(|_| {}), is_initial: true }, true, true, true, true);
    }

    #[test]
    fn predicates_combine() {
        let event = update(|meta| meta.generation = 2);
        assert!(or(GenerationChanged, LabelsChanged).allows(&event));
        assert!(!and(GenerationChanged, LabelsChanged).allows(&event));
        assert!(and(GenerationChanged, not(LabelsChanged)).allows(&event));
        assert!(!or(LabelsChanged, |event: &ResourceEvent<DynamicObject>| event.is_deleted()).allows(&event));
    }
}

//! Predicates, which decide which events lead to a reconciliation.
//!
//! A predicate receives an event with the old and the new state of an object. Predicates that compare these states
//! accept all additions and deletions, so no deletion is missed. The predicates in this module only read metadata, so
//! they never decode an object.

use pintle_informer::ResourceEvent;
use pintle_meta::{Metadata, Object};

/// Decides which events lead to a reconciliation. Functions from `&ResourceEvent<T>` to `bool` are predicates.
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
/// let event = ResourceEvent::Updated { old: old.into(), new: new.into() };
///
/// assert!(or(GenerationChanged, LabelsChanged).allows(&event));
/// assert!(and(GenerationChanged, not(LabelsChanged)).allows(&event));
/// let in_team_b = |event: &ResourceEvent<PartialObject>| event.object().metadata.namespace == "team-b";
/// assert!(!and(GenerationChanged, in_team_b).allows(&event));
/// ```
pub trait Predicate<T>: Send + Sync + 'static {
    /// Returns `true` if this predicate accepts `event`.
    fn allows(&self, event: &ResourceEvent<T>) -> bool;

    /// Returns `true` if the [negation](not) of this predicate accepts `event`. The default implementation returns the
    /// opposite of [`allows`](Self::allows). For additions and deletions, a predicate that compares two states should
    /// return `true` from both `allows` and `allows_not`, because these events have only one state.
    fn allows_not(&self, event: &ResourceEvent<T>) -> bool {
        !self.allows(event)
    }
}

impl<T, F: Fn(&ResourceEvent<T>) -> bool + Send + Sync + 'static> Predicate<T> for F {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self(event)
    }
}

/// Accepts updates that change `metadata.generation`, and updates that begin a deletion. An object's generation
/// increases with each change to its desired state.
///
/// For kinds without a generation (ConfigMap, Secret, Service...), this predicate accepts all updates except resyncs.
/// In controller-runtime, `GenerationChangedPredicate` rejects all updates of kinds without a generation.
///
/// For kinds with a generation, this predicate rejects changes that affect only labels, annotations or finalizers. The
/// addition of a finalizer does not cause a reconciliation. If the reconciler adds a finalizer and then returns, use
/// [`DesiredStateChanged`] instead.
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

/// Accepts updates that change the generation, labels, annotations or finalizers, and updates that begin a deletion.
/// Rejects updates that change only the status. Use this predicate for the main kind of a controller.
///
/// For kinds without a generation, this predicate accepts all updates except resyncs, like [`GenerationChanged`].
///
/// # Examples
///
/// ```
/// use pintle_controller::Kind;
/// use pintle_controller::predicate::DesiredStateChanged;
/// use pintle_informer::SharedInformer;
/// use pintle_meta::PartialObject;
///
/// fn desired(sites: &SharedInformer<PartialObject>) -> Kind<PartialObject> {
///     Kind::of(sites).when(DesiredStateChanged)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DesiredStateChanged;

/// Accepts updates that change the list of finalizers.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinalizersChanged;

/// Accepts all updates that change the object, and rejects only resyncs.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceVersionChanged;

/// Accepts updates that change a label.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabelsChanged;

/// Accepts updates that change an annotation.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnotationsChanged;

macro_rules! comparisons {
    ($($predicate:ty: $differs:expr;)*) => {$(
        impl<T: Object> Predicate<T> for $predicate {
            fn allows(&self, event: &ResourceEvent<T>) -> bool {
                compare(event).is_none_or(|(old, new)| $differs(old, new))
            }

            fn allows_not(&self, event: &ResourceEvent<T>) -> bool {
                compare(event).is_none_or(|(old, new)| !$differs(old, new))
            }
        }
    )*};
}

comparisons! {
    GenerationChanged: generation_differs;
    DesiredStateChanged: |old: &dyn Metadata, new: &dyn Metadata| {
        generation_differs(old, new)
            || old.labels() != new.labels()
            || old.annotations() != new.annotations()
            || old.finalizers() != new.finalizers()
    };
    FinalizersChanged: |old: &dyn Metadata, new: &dyn Metadata| old.finalizers() != new.finalizers();
    ResourceVersionChanged: version_differs;
    LabelsChanged: |old: &dyn Metadata, new: &dyn Metadata| old.labels() != new.labels();
    AnnotationsChanged: |old: &dyn Metadata, new: &dyn Metadata| old.annotations() != new.annotations();
}

fn generation_differs(old: &dyn Metadata, new: &dyn Metadata) -> bool {
    let has_none = old.generation() == 0 && new.generation() == 0;
    old.generation() != new.generation()
        || old.is_terminating() != new.is_terminating()
        || (has_none && version_differs(old, new))
}

fn version_differs(old: &dyn Metadata, new: &dyn Metadata) -> bool {
    old.resource_version() != new.resource_version()
}

fn compare<T: Object>(event: &ResourceEvent<T>) -> Option<(&dyn Metadata, &dyn Metadata)> {
    match event {
        ResourceEvent::Updated { old, new } => Some((old.metadata(), new.metadata())),
        ResourceEvent::Added { .. } | ResourceEvent::Deleted { .. } => None,
    }
}

/// Returns a predicate that accepts the events that both `a` and `b` accept.
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

/// Returns a predicate that accepts the events that `a` or `b` accepts.
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

/// Returns a predicate that accepts the events that `a` rejects. The comparisons in this module, such as
/// [`LabelsChanged`], accept additions and deletions even if they are negated, including inside [`and`] and [`or`]. A
/// negated function accepts exactly the events for which the function returns `false`.
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

/// The predicate that [`and`] returns.
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

/// The predicate that [`or`] returns.
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

/// The predicate that [`not`] returns.
#[derive(Clone, Copy, Debug)]
pub struct Not<A>(A);

impl<T, A: Predicate<T>, B: Predicate<T>> Predicate<T> for And<A, B> {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows(event) && self.1.allows(event)
    }

    fn allows_not(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows_not(event) || self.1.allows_not(event)
    }
}

impl<T, A: Predicate<T>, B: Predicate<T>> Predicate<T> for Or<A, B> {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows(event) || self.1.allows(event)
    }

    fn allows_not(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows_not(event) && self.1.allows_not(event)
    }
}

impl<T, A: Predicate<T>> Predicate<T> for Not<A> {
    fn allows(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows_not(event)
    }

    fn allows_not(&self, event: &ResourceEvent<T>) -> bool {
        self.0.allows(event)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_meta::{DynamicObject, ObjectMeta, Time};

    use super::*;

    fn object(change: impl FnOnce(&mut ObjectMeta)) -> Arc<DynamicObject> {
        let mut metadata = ObjectMeta { generation: 1, ..ObjectMeta::new("ns", "name") };
        change(&mut metadata);
        Arc::new(DynamicObject { metadata, ..DynamicObject::default() })
    }

    fn update(change: impl FnOnce(&mut ObjectMeta)) -> ResourceEvent<DynamicObject> {
        ResourceEvent::Updated { old: object(|_| {}).into(), new: object(change).into() }
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
    fn updates_pass_depending_on_the_changed_fields() {
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
            check(&ResourceEvent::Deleted { object: object(|_| {}).into(), final_state_known }, true, true, true, true);
        }
        check(&ResourceEvent::Added { object: object(|_| {}).into(), is_initial: true }, true, true, true, true);
    }

    #[test]
    fn desired_state_excludes_only_the_status() {
        let passes =
            |event: &ResourceEvent<DynamicObject>| (DesiredStateChanged.allows(event), FinalizersChanged.allows(event));
        assert_eq!(passes(&update(|_| {})), (false, false));
        assert_eq!(passes(&update(|meta| meta.resource_version = "8".into())), (false, false));
        assert_eq!(passes(&update(|meta| meta.generation = 2)), (true, false));
        assert_eq!(passes(&update(|meta| drop(meta.labels.insert("a".into(), "b".into())))), (true, false));
        assert_eq!(passes(&update(|meta| drop(meta.annotations.insert("a".into(), "b".into())))), (true, false));
        assert_eq!(passes(&update(|meta| meta.finalizers.push("a".into()))), (true, true));
        let begun = Some(Time("2026-11-20T08:30:00Z".parse().unwrap()));
        assert_eq!(passes(&update(|meta| meta.deletion_timestamp = begun)), (true, false));
    }

    #[test]
    fn updates_without_generation_pass_except_resyncs() {
        let without = |version: &str| {
            object(|meta| {
                meta.generation = 0;
                meta.resource_version = version.into();
            })
        };
        let update = |version| -> ResourceEvent<DynamicObject> {
            ResourceEvent::Updated { old: without("1").into(), new: without(version).into() }
        };
        assert!(GenerationChanged.allows(&update("2")) && DesiredStateChanged.allows(&update("2")));
        assert!(!GenerationChanged.allows(&update("1")) && !DesiredStateChanged.allows(&update("1")));
    }

    #[test]
    fn negated_comparisons_pass_additions_and_deletions() {
        let labelled = update(|meta| drop(meta.labels.insert("a".into(), "b".into())));
        assert!(!not(LabelsChanged).allows(&labelled) && not(LabelsChanged).allows(&update(|_| {})));
        assert!(not(not(LabelsChanged)).allows(&labelled) && !not(not(LabelsChanged)).allows(&update(|_| {})));
        let in_ns = |event: &ResourceEvent<DynamicObject>| event.object().metadata.namespace == "ns";
        for event in [
            ResourceEvent::Added { object: object(|_| {}).into(), is_initial: false },
            ResourceEvent::Deleted { object: object(|_| {}).into(), final_state_known: true },
        ] {
            assert!(not(LabelsChanged).allows(&event) && not(not(LabelsChanged)).allows(&event));
            assert!(not(or(LabelsChanged, AnnotationsChanged)).allows(&event));
            assert!(not(and(LabelsChanged, in_ns)).allows(&event));
            assert!(!not(or(LabelsChanged, in_ns)).allows(&event) && !not(in_ns).allows(&event));
        }
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

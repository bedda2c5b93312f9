//! Tests of the changes that a listener receives.

use std::sync::Arc;

use pintle_delta_fifo::{Change, CoalescingFifo, Delivery, Overtaken};

use crate::support::{Thing, thing};

type Fifo = CoalescingFifo<String, Arc<Thing>>;

/// Two states belong to the same object if their values `a` and `b` satisfy `a / 100 == b / 100`.
fn fifo(delivery: Delivery) -> Fifo {
    CoalescingFifo::new(|old, new| old.value / 100 == new.value / 100, delivery)
}

fn object(name: &str, value: u32) -> Arc<Thing> {
    Arc::new(thing(name, value))
}

fn add(fifo: &mut Fifo, name: &str, value: u32) {
    fifo.added(name.into(), object(name, value), false);
}

fn update(fifo: &mut Fifo, name: &str, old: u32, new: u32) {
    fifo.updated(name.into(), object(name, old), object(name, new));
}

fn delete(fifo: &mut Fifo, name: &str, known: u32, last: u32) {
    fifo.deleted(name.into(), object(name, known), object(name, last), true);
}

/// Pops all changes and describes each one: `A a1` is an addition, `U a1>a2` an update, `D a2` an observed deletion,
/// and `D? a2` an inferred deletion.
fn pops(fifo: &mut Fifo) -> Vec<String> {
    let text = |object: &Thing| format!("{}{}", object.name, object.value);
    let describe = |change: Change<Arc<Thing>>| match change {
        Change::Added { object, is_initial } => format!("A{} {}", if is_initial { "!" } else { "" }, text(&object)),
        Change::Updated { old: Some(old), new } => format!("U {}>{}", text(&old), text(&new)),
        Change::Updated { old: None, new } => format!("U {}", text(&new)),
        Change::Deleted { object, final_state_known: true } => format!("D {}", text(&object)),
        Change::Deleted { object, final_state_known: false } => format!("D? {}", text(&object)),
    };
    std::iter::from_fn(|| fifo.pop()).map(|(_, change)| describe(change)).collect()
}

#[test]
fn observed_deletion_stays_observed_when_recreation_joins_it() {
    for delivery in [Delivery::Coalesced, Delivery::Newest] {
        let mut fifo = fifo(delivery);
        delete(&mut fifo, "a", 1, 2);
        add(&mut fifo, "a", 101);
        update(&mut fifo, "a", 101, 102);
        assert_eq!(pops(&mut fifo), ["D a2", "A a102"]);

        // The object is deleted before the listener has received its last update.
        update(&mut fifo, "a", 102, 103);
        delete(&mut fifo, "a", 103, 104);
        add(&mut fifo, "a", 201);
        let (old, rest): (&[_], _) = (&["U a102>a104"], ["D a104", "A a201"]);
        assert_eq!(pops(&mut fifo), [if delivery == Delivery::Newest { &[] } else { old }, &rest].concat());

        // Another object is added and deleted before the listener has received a change.
        delete(&mut fifo, "a", 201, 202);
        add(&mut fifo, "a", 301);
        delete(&mut fifo, "a", 301, 302);
        assert_eq!(pops(&mut fifo), ["D a202"]);
    }
}

#[test]
fn inferred_deletion_carries_the_last_observed_state() {
    let mut fifo = fifo(Delivery::Coalesced);
    update(&mut fifo, "a", 1, 101);
    assert_eq!(pops(&mut fifo), ["D? a1", "A a101"]);

    update(&mut fifo, "a", 101, 102);
    update(&mut fifo, "a", 102, 201);
    update(&mut fifo, "a", 201, 301);
    assert_eq!(pops(&mut fifo), ["U a101>a102", "D? a102", "A a301"]);

    // The listener does not know the object of this observed deletion.
    delete(&mut fifo, "a", 301, 401);
    assert_eq!(pops(&mut fifo), ["D? a301"]);
    update(&mut fifo, "b", 1, 2);
    delete(&mut fifo, "b", 2, 101);
    assert_eq!(pops(&mut fifo), ["U b1>b2", "D? b2"]);

    fifo.deleted("c".into(), object("c", 1), object("c", 1), false);
    delete(&mut fifo, "c", 1, 2);
    fifo.deleted("c".into(), object("c", 1), object("c", 1), false);
    assert_eq!(pops(&mut fifo), ["D c2"]);
}

#[test]
fn deletion_follows_the_update_that_it_joins() {
    for delivery in [Delivery::Coalesced, Delivery::Ordered { bound: 0 }] {
        let mut fifo = fifo(delivery);
        update(&mut fifo, "a", 1, 2);
        update(&mut fifo, "a", 2, 3);
        // The producer first detects that the object is missing, and observes the deletion afterwards.
        fifo.deleted("a".into(), object("a", 3), object("a", 3), false);
        delete(&mut fifo, "a", 3, 4);
        delete(&mut fifo, "b", 1, 2);
        assert_eq!(fifo.len(), 2);
        assert_eq!(pops(&mut fifo), ["U a1>a4", "D a4", "D b2"]);

        update(&mut fifo, "a", 101, 102);
        delete(&mut fifo, "a", 102, 103);
        add(&mut fifo, "a", 201);
        delete(&mut fifo, "a", 201, 202);
        assert_eq!(pops(&mut fifo), ["U a101>a103", "D a103"], "the listener does not know the second object");
    }
}

#[test]
fn newest_delivery_keeps_no_old_object() {
    let check = |delivery, is_pinned: bool| {
        let old_count = usize::from(is_pinned);
        let mut fifo = fifo(delivery);
        let [first, second, third] = [1, 2, 3].map(|value| object("a", value));
        fifo.updated("a".into(), first.clone(), second.clone());
        fifo.updated("a".into(), second.clone(), third.clone());
        fifo.sync("a".into(), third.clone());
        let pinned = [&first, &second, &third].map(|object| Arc::strong_count(object) > 1);
        assert_eq!(pinned, [is_pinned, false, true], "{delivery:?}");
        fifo.deleted("a".into(), third.clone(), third.clone(), true);
        let pinned = [&first, &second, &third].map(|object| Arc::strong_count(object) - 1);
        assert_eq!(pinned, [old_count, 0, 1], "{delivery:?}");
    };
    check(Delivery::Coalesced, true);
    check(Delivery::Newest, false);

    let mut newest = fifo(Delivery::Newest);
    update(&mut newest, "a", 1, 2);
    newest.sync("b".into(), object("b", 1));
    assert_eq!(pops(&mut newest), ["U a2", "U b1"]);
}

#[test]
fn ordered_changes_are_delivered_in_order() {
    let mut fifo = fifo(Delivery::Ordered { bound: 100 });
    add(&mut fifo, "a", 1);
    add(&mut fifo, "b", 1);
    update(&mut fifo, "a", 1, 2);
    delete(&mut fifo, "a", 2, 3);
    update(&mut fifo, "b", 1, 2);
    add(&mut fifo, "a", 101);
    fifo.sync("b".into(), object("b", 2));
    assert_eq!((fifo.len(), fifo.joined()), (6, 0));
    assert_eq!(pops(&mut fifo), ["A a1", "A b1", "U a1>a2", "D a3", "U b1>b2", "A a101"]);
    fifo.sync("b".into(), object("b", 2));
    assert_eq!(pops(&mut fifo), ["U b2>b2"]);
}

#[test]
fn ordered_change_joins_its_key_at_the_bound() {
    let mut fifo = fifo(Delivery::Ordered { bound: 3 });
    add(&mut fifo, "a", 1);
    update(&mut fifo, "a", 1, 2);
    add(&mut fifo, "b", 1);
    update(&mut fifo, "a", 2, 3);
    update(&mut fifo, "a", 3, 4);
    add(&mut fifo, "c", 1);
    delete(&mut fifo, "b", 1, 1);
    assert_eq!((fifo.len(), fifo.joined()), (3, 3));
    assert_eq!(pops(&mut fifo), ["A a1", "U a1>a4", "A c1"]);
}

#[test]
fn merged_additions_stay_initial() {
    let mut fifo = fifo(Delivery::Coalesced);
    for name in ["a", "b", "c"] {
        fifo.added(name.into(), object(name, 1), true);
    }
    add(&mut fifo, "d", 1);
    update(&mut fifo, "a", 1, 2);
    delete(&mut fifo, "b", 1, 1);
    assert_eq!(pops(&mut fifo), ["A! a2", "A! c1", "A d1"]);
}

#[test]
fn first_delivery_of_a_key_overtakes_queued_changes() {
    for delivery in [Delivery::Coalesced, Delivery::Newest] {
        let mut fifo = fifo(delivery);
        update(&mut fifo, "changed", 1, 2);
        update(&mut fifo, "recreated", 1, 101);
        delete(&mut fifo, "gone", 1, 1);
        let overtake = |name: &str| {
            let Overtaken { newest, undelivered } = fifo.overtake(&name.to_owned())?;
            Some((newest.map(|newest| newest.value), undelivered.map(|undelivered| undelivered.value)))
        };
        let old = (delivery == Delivery::Coalesced).then_some(1);
        assert_eq!(
            ["same", "changed", "gone", "recreated"].map(overtake),
            [None, Some((Some(2), old)), Some((None, Some(1))), Some((None, Some(1)))]
        );
        assert_eq!(pops(&mut fifo), ["A recreated101"], "the addition of the other object stays queued");
    }
    let mut fifo = fifo(Delivery::Ordered { bound: 9 });
    update(&mut fifo, "changed", 1, 2);
    assert_eq!(fifo.overtake(&"changed".to_owned()), None);
    assert_eq!(pops(&mut fifo), ["U changed1>changed2"]);
}

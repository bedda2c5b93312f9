//! Compares JSON objects with a `BTreeMap`, around the size at which an object switches to a tree.

use std::collections::BTreeMap;

use pintle_json::{Json, Map, Text, json};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, proptest};

proptest! {
    #[test]
    fn any_operations_have_the_results_of_a_btree_map(
        steps in vec((0..6u8, 0..80u8, any::<i32>()), 0..300),
    ) {
        let mut map = Map::new();
        let mut oracle = BTreeMap::<String, i32>::new();
        for (operation, key, value) in steps {
            let key = format!("{}", key);
            match operation {
                0..3 => prop_assert_eq!(map.insert(&key, value.into()), oracle.insert(key, value).map(Json::from)),
                3 => prop_assert_eq!(map.remove(&key), oracle.remove(&key).map(Json::from)),
                4 => prop_assert_eq!(map.entry(&key).or_insert(value), &mut Json::from(*oracle.entry(key).or_insert(value))),
                _ if value % 8 == 0 => {
                    map.retain(|_, member| member.as_i64().is_some_and(|member| member % 2 == 0));
                    oracle.retain(|_, member| *member % 2 == 0);
                }
                _ => prop_assert_eq!(map.get_mut(&key).cloned(), oracle.get(&key).copied().map(Json::from)),
            }
            prop_assert_eq!((map.len(), map.is_empty()), (oracle.len(), oracle.is_empty()));
        }
        let members = || oracle.iter().map(|(key, value)| (Text::from(key), Json::from(*value)));
        prop_assert_eq!(map.iter().len(), oracle.len());
        prop_assert_eq!(map.iter().map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>(), members().collect::<Vec<_>>());
        prop_assert_eq!(map.iter().rev().map(|(key, _)| key.clone()).collect::<Vec<_>>(), members().rev().map(|(key, _)| key).collect::<Vec<_>>());
        prop_assert_eq!(map.keys().zip(map.values()).collect::<Vec<_>>(), map.iter().collect::<Vec<_>>());
        for (key, value) in &mut map {
            *value = key.as_str().into();
        }
        for value in map.values_mut() {
            *value = json!([value.take()]);
        }
        let changed = oracle.keys().map(|key| (Text::from(key), json!([key])));
        prop_assert_eq!(map.into_iter().collect::<Vec<_>>(), changed.collect::<Vec<_>>());
    }

    #[test]
    fn maps_with_the_same_members_are_equal(many in 0..60u8, more in 0..60u8) {
        let few: Map = (0..many).map(|at| (format!("{at}"), at)).collect();
        let mut shrunk: Map = (0..many + more).rev().map(|at| (format!("{at}"), at)).collect();
        (many..many + more).for_each(|at| assert!(shrunk.remove(&at.to_string()).is_some()));
        prop_assert_eq!(&shrunk, &few);
        shrunk.insert("odd", Json::Null);
        assert_ne!(shrunk, few);
    }
}

#[test]
fn map_shows_extends_and_clears_its_members() {
    let mut map: Map = [("b", json!(1)), ("a", json!("x")), ("b", json!(2))].into_iter().collect();
    assert_eq!(format!("{map:?}"), r#"{"a": "x", "b": 2}"#);
    assert!(map.contains_key("a") && !map.contains_key("c"));
    map.extend([("c", 3)]);
    assert_eq!((map["c"].as_i64(), &map["d"], map.len()), (Some(3), &Json::Null, 3));
    map.clear();
    assert_eq!(map, Map::default());
}

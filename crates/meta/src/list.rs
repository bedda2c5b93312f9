//! Lists of objects.

use serde::{Deserialize, Serialize};

use crate::TypeMeta;
use crate::null::or_empty;

/// A page of objects.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct List<T> {
    /// `apiVersion` and `kind` of the list, such as `PodList`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The list's own metadata.
    #[serde(default, deserialize_with = "or_empty")]
    pub metadata: ListMeta,
    /// The objects, in the order of their keys. Go writes an empty list of some kinds as `null`.
    #[serde(default = "Vec::new", deserialize_with = "or_empty")]
    pub items: Vec<T>,
}

/// The objects.
impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

/// The objects.
impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// The revision at which the list was true: a watch from here misses nothing.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Where the next page begins; empty on the last page. Opaque.
    #[serde(default, deserialize_with = "or_empty", rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// How many objects follow this page, where the server can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_iterates_over_its_objects() {
        let list = List { types: TypeMeta::default(), metadata: ListMeta::default(), items: vec![1, 2] };
        assert_eq!((&list).into_iter().sum::<i32>(), 3);
        assert_eq!(list.into_iter().collect::<Vec<_>>(), [1, 2]);
    }
}

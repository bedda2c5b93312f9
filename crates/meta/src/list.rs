//! Lists of objects.

use serde::{Deserialize, Serialize};

use crate::null::or_empty;
use crate::object_meta::TypeMeta;

/// A list response, which contains all objects or one page of a larger list.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct List<T> {
    /// The `apiVersion` and `kind` of the list, such as `v1` and `PodList`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The list metadata.
    #[serde(default, deserialize_with = "or_empty")]
    pub metadata: ListMeta,
    /// The objects, sorted by key. Because Go programs may encode an empty list as `null`, `null` is decoded as an
    /// empty list.
    #[serde(default = "Vec::new", deserialize_with = "or_empty")]
    pub items: Vec<T>,
}

/// Iterates over the objects in the list.
impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

/// Iterates over references to the objects in the list.
impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// List metadata, like Kubernetes' `metav1.ListMeta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// The list's revision. A watch that starts at this revision sends all changes after the list.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// An opaque token for requesting the next page. The last page has an empty token.
    #[serde(default, deserialize_with = "or_empty", rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// The number of objects after this page, or `None` if the server did not send this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_iterates_over_its_objects() {
        let list = List { types: TypeMeta::default(), metadata: ListMeta::default(), items: vec![1, 2] };
        assert_eq!((&list).into_iter().sum::<i32>(), 3);
        assert_eq!(list.into_iter().collect::<Vec<_>>(), [1, 2]);
    }
}

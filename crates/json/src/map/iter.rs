//! Iterators over the members of a [`Map`], sorted by key.

use std::collections::btree_map;
use std::{slice, vec};

use crate::json::{Json, Map, MapLayout};
use crate::text::Text;

impl Map {
    /// Returns an iterator over the members of the map.
    pub fn iter(&self) -> Members<'_> {
        match &self.0 {
            MapLayout::List(list) => Members(Either::List(list.iter())),
            MapLayout::Tree(tree) => Members(Either::Tree(tree.iter())),
        }
    }

    /// Returns an iterator over the members with mutable references to the values.
    pub fn iter_mut(&mut self) -> MembersMut<'_> {
        match &mut self.0 {
            MapLayout::List(list) => MembersMut(Either::List(list.iter_mut())),
            MapLayout::Tree(tree) => MembersMut(Either::Tree(tree.iter_mut())),
        }
    }

    /// Returns an iterator over the keys of the map.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Text> + DoubleEndedIterator + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// Returns an iterator over the values of the map.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Json> + DoubleEndedIterator + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Returns an iterator over mutable references to the values of the map.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut Json> {
        self.iter_mut().map(|(_, value)| value)
    }
}

/// An iterator over the members of a [`Map`].
#[derive(Clone, Debug)]
pub struct Members<'a>(Either<slice::Iter<'a, (Text, Json)>, btree_map::Iter<'a, Text, Json>>);

/// An iterator over the members of a [`Map`] with mutable references to the values.
#[derive(Debug)]
pub struct MembersMut<'a>(Either<slice::IterMut<'a, (Text, Json)>, btree_map::IterMut<'a, Text, Json>>);

/// An owning iterator over the members of a [`Map`].
#[derive(Debug)]
pub struct IntoMembers(Either<vec::IntoIter<(Text, Json)>, btree_map::IntoIter<Text, Json>>);

#[derive(Clone, Debug)]
enum Either<L, T> {
    List(L),
    Tree(T),
}

impl<L: Iterator, T: Iterator> Either<L, T> {
    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::List(list) => list.size_hint(),
            Self::Tree(tree) => tree.size_hint(),
        }
    }
}

/// Implements an iterator over the members of a map. `$split` converts a borrowed item of the list
/// layout to an item with the type of the tree layout.
macro_rules! iterate {
    ($name:ident, $item:ty, $split:expr $(, $life:lifetime)?) => {
        impl$(<$life>)? Iterator for $name$(<$life>)? {
            type Item = $item;

            fn next(&mut self) -> Option<Self::Item> {
                match &mut self.0 {
                    Either::List(list) => list.next().map($split),
                    Either::Tree(tree) => tree.next(),
                }
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl$(<$life>)? DoubleEndedIterator for $name$(<$life>)? {
            fn next_back(&mut self) -> Option<Self::Item> {
                match &mut self.0 {
                    Either::List(list) => list.next_back().map($split),
                    Either::Tree(tree) => tree.next_back(),
                }
            }
        }

        impl$(<$life>)? ExactSizeIterator for $name$(<$life>)? {}
    };
}

iterate!(Members, (&'a Text, &'a Json), |(key, value)| (key, value), 'a);
iterate!(MembersMut, (&'a Text, &'a mut Json), |(key, value)| (&*key, value), 'a);
iterate!(IntoMembers, (Text, Json), |member| member);

impl<'a> IntoIterator for &'a Map {
    type Item = (&'a Text, &'a Json);
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Map {
    type Item = (&'a Text, &'a mut Json);
    type IntoIter = MembersMut<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl IntoIterator for Map {
    type Item = (Text, Json);
    type IntoIter = IntoMembers;

    fn into_iter(self) -> Self::IntoIter {
        match self.0 {
            MapLayout::List(list) => IntoMembers(Either::List(list.into_iter())),
            MapLayout::Tree(tree) => IntoMembers(Either::Tree(tree.into_iter())),
        }
    }
}

/// Adds members, keeping the last value of a repeated key.
impl<K: Into<Text>, V: Into<Json>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, members: I) {
        members.into_iter().for_each(|(key, value)| drop(self.insert(key, value.into())));
    }
}

/// Collects members into a map, keeping the last value of a repeated key.
impl<K: Into<Text>, V: Into<Json>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        let mut map = Self::new();
        map.extend(members);
        map
    }
}

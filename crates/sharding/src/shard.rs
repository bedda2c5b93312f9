//! Shards, each of which contains the objects whose hashes are in one range.

use std::fmt;

use pintle_meta::{Object, ObjectKey};

/// One of the parts into which [`Shards`](crate::Shards) divides all objects. An object belongs to a shard if the
/// FNV-1a hash of its uid is in the range of the shard. Kubernetes' sharded lists and watches (KEP-5866) use the same
/// hash. The hash ranges of all shards have the same size.
///
/// # Examples
///
/// ```
/// use pintle_sharding::Shard;
///
/// let shards: Vec<Shard> = Shard::all(2).collect();
/// assert_eq!(shards[1].to_string(), "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')");
/// let uid = "5e0bb5ec-5d0e-4e0c-a5f5-8d3f14a2f4d0";
/// assert_eq!(shards.iter().filter(|shard| shard.has_uid(uid)).count(), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// Divides all objects into `count` shards.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count })
    }

    /// Returns the index of this shard, counted from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the total number of shards.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns `true` if the object belongs to this shard.
    pub fn has(self, object: &impl Object) -> bool {
        self.has_uid(object.uid())
    }

    /// Returns `true` if the object with this uid belongs to this shard.
    pub fn has_uid(self, uid: &str) -> bool {
        self.has_hash(fnv1a(uid.as_bytes()))
    }

    fn has_hash(self, hash: u64) -> bool {
        let hash = u128::from(hash);
        (self.bound(self.index)..self.bound(self.index + 1)).contains(&hash)
    }

    /// Returns `true` if the object with this key belongs to this shard, for objects that are divided by key instead of
    /// uid. The shard of a key does not change if the object is created, deleted or re-created, so one replica does all
    /// work for a key. Keys that differ only in their last characters, such as numbers, are distributed evenly.
    pub fn has_key(self, key: &ObjectKey) -> bool {
        self.has_hash(mixed(fnv1a(key.as_str().as_bytes())))
    }

    /// Returns the lowest hash of the shard with this index.
    fn bound(self, index: u32) -> u128 {
        (u128::from(index) << 64) / u128::from(self.count)
    }
}

/// Returns the `shardSelector` parameter for list and watch requests.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (self.bound(self.index), self.bound(self.index + 1));
        write!(f, "shardRange(object.metadata.uid, '{start:#018x}', '{end:#018x}')")
    }
}

pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_from(0xcbf2_9ce4_8422_2325, bytes)
}

/// Continues a 64-bit FNV-1a hash with more bytes. `hash` is the hash of all previous bytes.
pub(crate) fn fnv1a_from(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Mixes the bits of a hash, like the SplitMix64 algorithm. Mixing is needed because the last input bytes affect only a
/// few bits of an FNV-1a hash.
pub(crate) fn mixed(hash: u64) -> u64 {
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_matches_the_published_test_vectors() {
        for (text, hash) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fnv1a(text.as_bytes()), hash, "{text:?}");
        }
    }

    #[test]
    fn uids_are_spread_evenly_over_shards() {
        for count in [1, 2, 3, 7, 64] {
            let mut found = vec![0; count as usize];
            let mut rng = fastrand::Rng::with_seed(7);
            for _ in 0..6_400 {
                let uid = format!("{:08x}-5d0e-4e0c-a5f5-{:012x}", rng.u32(..), rng.u64(..1 << 48));
                let having: Vec<_> = Shard::all(count).filter(|shard| shard.has_uid(&uid)).collect();
                let [shard] = having[..] else { panic!("{uid} is in {having:?}") };
                found[shard.index() as usize] += 1;
            }
            let even = 6_400 / count;
            assert!(found.iter().all(|found| (even / 2..=even * 2).contains(found)), "{count}: {found:?}");
        }
    }

    #[test]
    fn numbered_keys_are_spread_evenly_over_shards() {
        for count in [2, 7, 16] {
            let mut found = vec![0; count as usize];
            for number in 0..1_600 {
                let key = ObjectKey::new("default", &format!("site-{number}"));
                let shard = Shard::all(count).find(|shard| shard.has_key(&key)).unwrap();
                found[shard.index() as usize] += 1;
            }
            let even = 1_600 / count;
            assert!(found.iter().all(|found| (even / 2..=even * 2).contains(found)), "{count}: {found:?}");
        }
    }

    #[test]
    fn key_belongs_to_one_shard() {
        for number in 0..100 {
            let key = ObjectKey::new("team-a", &format!("site-{number}"));
            assert_eq!(Shard::all(7).filter(|shard| shard.has_key(&key)).count(), 1, "{key}");
        }
    }

    #[test]
    fn shard_ranges_cover_all_hashes_without_overlap() {
        let shown: Vec<_> = Shard::all(3).map(|shard| shard.to_string()).collect();
        assert_eq!(
            shown,
            [
                "shardRange(object.metadata.uid, '0x0000000000000000', '0x5555555555555555')",
                "shardRange(object.metadata.uid, '0x5555555555555555', '0xaaaaaaaaaaaaaaaa')",
                "shardRange(object.metadata.uid, '0xaaaaaaaaaaaaaaaa', '0x10000000000000000')",
            ]
        );
    }
}

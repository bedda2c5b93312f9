//! The field managers that have written an object.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use pintle_meta::__private::RwLock;

/// The author of a change, according to the object's `managedFields`: see
/// [`ResourceEvent::writer`](crate::ResourceEvent::writer).
///
/// # Examples
///
/// ```
/// use pintle_informer::Writer;
///
/// let (manager, operation) = ("kubectl-edit".to_owned(), "Update".to_owned());
/// let writer = Writer { manager, operation, subresource: "status".into() };
/// assert_eq!(writer.to_string(), "kubectl-edit (Update, status)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writer {
    /// The name of the field manager. If a program does not set a name, the server derives a name from its user agent.
    pub manager: String,
    /// `Apply` for a server-side apply, and `Update` for all other requests.
    pub operation: String,
    /// The subresource of the request, such as `status`, or an empty string if the request wrote the object itself.
    pub subresource: String,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { manager, operation, subresource } = self;
        match &**subresource {
            "" => write!(f, "{manager} ({operation})"),
            _ => write!(f, "{manager} ({operation}, {subresource})"),
        }
    }
}

/// The newest write in a state of an object. The type is small, because the cache stores a `LastWrite` for each object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastWrite {
    /// The number of the [group](Groups) of managers whose entries have the latest time, or 0 if the managers are
    /// unknown.
    group: [u8; 2],
    /// The latest time as a big-endian number: see [`moment`].
    time: [u8; 4],
    /// The size of the fields of the last entry, in units of eight bytes and at most 255.
    size: u8,
}

impl LastWrite {
    /// Creates a `LastWrite`. `writers` contains the manager, the operation and the subresource of each entry with the
    /// latest time. `size` is the size of the fields in the last of these entries.
    pub(crate) fn new<'a>(
        writers: impl ExactSizeIterator<Item = [&'a [u8]; 3]> + Clone,
        time: &[u8],
        size: usize,
    ) -> Self {
        if writers.len() == 0 {
            return Self::default();
        }
        let (group, time) = (GROUPS.id(writers).to_be_bytes(), moment(time).to_be_bytes());
        Self { group, time, size: u8::try_from(size / 8).unwrap_or(u8::MAX) }
    }

    /// Returns the field manager of this write, with its operation and subresource. `before` is the newest write in the
    /// previous state. Returns `None` if the write did not add an entry with a newer time. A server records no new time
    /// for a write that only removes fields or that changes the `scale` subresource.
    pub(crate) fn writer(self, before: Self) -> Option<Arc<Writer>> {
        let known = GROUPS.known.read();
        let writers = known.get(u16::from_be_bytes(self.group))?;
        let last = writers.last()?;
        match self.time.cmp(&before.time) {
            Ordering::Greater => return Some(last.clone()),
            Ordering::Less => return None,
            Ordering::Equal => {}
        }
        if self.group == before.group {
            // A field manager that sets a field also removes the field from the entries of other managers.
            return match (self.size.cmp(&before.size), writers) {
                (Ordering::Greater, _) => Some(last.clone()),
                (Ordering::Less, [other, _]) => Some(other.clone()),
                _ => None,
            };
        }
        let earlier = known.get(u16::from_be_bytes(before.group)).unwrap_or_default();
        let new = writers.iter().rfind(|writer| !earlier.contains(writer));
        Some(new.unwrap_or(last).clone())
    }
}

/// Converts a time such as `2026-01-01T00:00:02Z` to a number. Later times have higher numbers. Returns 0 if the text
/// has a different format.
fn moment(time: &[u8]) -> u32 {
    let number = |at: Range<usize>| {
        let digits = time.get(at)?;
        let digit = |byte: &u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
        digits.iter().try_fold(0, |number, byte| Some(10 * number + digit(byte)?))
    };
    let parts = || {
        let days = (number(0..4)?.checked_sub(2_000)? * 12 + number(5..7)?) * 31 + number(8..10)?;
        let seconds = (number(11..13)? * 60 + number(14..16)?) * 60 + number(17..19)?;
        days.checked_mul(86_400)?.checked_add(seconds)
    };
    parts().unwrap_or_default()
}

/// The groups of field managers that all informers of the process have seen. A group consists of all managers that
/// wrote an object within the same second. Most groups consist of a single manager. Groups are never removed, because
/// objects refer to groups by number.
struct Groups {
    hasher: RandomState,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    by_hash: HashMap<u64, u16>,
    /// The position of a group in this vector is its number minus one.
    groups: Vec<Box<[Arc<Writer>]>>,
}

/// The maximum number of groups. A cluster has few field managers, but clients can invent any number of manager names.
const MOST: usize = 4_000;

/// The maximum length in bytes of a manager, operation or subresource. Kubernetes limits managers to 128 characters.
const LONGEST: usize = 512;

static GROUPS: LazyLock<Groups> =
    LazyLock::new(|| Groups { hasher: RandomState::new(), known: RwLock::new(Known::default()) });

impl Groups {
    /// Returns the number of a group, and stores the group if it is new. Returns 0 if the group cannot be stored.
    fn id<'a>(&self, writers: impl Iterator<Item = [&'a [u8]; 3]> + Clone) -> u16 {
        // Groups are compared only by their hash, because two of 4,000 random hashes are equal with a probability of
        // only 1 in 2^41.
        let hash = self.hasher.hash_one(Texts(writers.clone()));
        {
            let known = self.known.read();
            if let Some(id) = known.by_hash.get(&hash) {
                return *id;
            }
            // If the table is full, return here, so that events do not allocate and do not wait for the write lock.
            if known.groups.len() == MOST {
                return 0;
            }
        }
        let Some(group) = writers.map(writer).collect::<Option<Box<[_]>>>() else { return 0 };
        let mut known = self.known.write();
        known.insert(hash, group)
    }
}

impl Known {
    fn insert(&mut self, hash: u64, group: Box<[Arc<Writer>]>) -> u16 {
        if let Some(id) = self.by_hash.get(&hash) {
            return *id;
        }
        if self.groups.len() == MOST {
            return 0;
        }
        self.groups.push(group);
        let id = self.groups.len() as u16;
        self.by_hash.insert(hash, id);
        id
    }

    fn get(&self, id: u16) -> Option<&[Arc<Writer>]> {
        Some(self.groups.get(usize::from(id.checked_sub(1)?))?)
    }
}

struct Texts<I>(I);

impl<'a, I: Iterator<Item = [&'a [u8]; 3]> + Clone> std::hash::Hash for Texts<I> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.clone().for_each(|texts| texts.hash(state));
    }
}

/// Creates a writer from the contents of JSON strings. Returns `None` if there is no manager, or if a string is too
/// long or invalid.
fn writer(texts: [&[u8]; 3]) -> Option<Arc<Writer>> {
    let [manager, operation, subresource] = texts.map(unescaped);
    let manager = manager.filter(|manager| !manager.is_empty())?;
    Some(Arc::new(Writer { manager, operation: operation?, subresource: subresource? }))
}

fn unescaped(json: &[u8]) -> Option<String> {
    if json.len() > LONGEST {
        return None;
    }
    if json.contains(&b'\\') {
        serde_json::from_slice(&[b"\"", json, b"\""].concat()).ok()
    } else {
        String::from_utf8(json.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_shared_and_bounded() {
        let groups = Groups { hasher: RandomState::new(), known: RwLock::default() };
        let id = |manager: &str| groups.id([[manager.as_bytes(), b"Update", b""]].into_iter());
        assert_eq!(id("\\"), 0, "an invalid text");
        for number in 0..2 * MOST {
            let expected = if number < MOST { number as u16 + 1 } else { 0 };
            assert_eq!(id(&number.to_string()), expected);
            assert_eq!(id("0"), 1);
        }
        assert_eq!(groups.known.read().groups.len(), MOST);
    }

    #[test]
    fn boundaries_between_texts_distinguish_writers() {
        let groups = Groups { hasher: RandomState::new(), known: RwLock::default() };
        let id = |writers: &[[&str; 3]]| groups.id(writers.iter().map(|texts| texts.map(str::as_bytes)));
        let ids = [
            id(&[["ab", "c", ""]]),
            id(&[["a", "bc", ""]]),
            id(&[["ab", "", "c"]]),
            id(&[["ab", "c", ""], ["d", "", ""]]),
            id(&[["d", "", ""], ["ab", "c", ""]]),
        ];
        assert_eq!(ids, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn later_times_have_greater_moments() {
        let times = [
            "",
            "2026-01-01T00:00:02Z",
            "2026-01-01T00:01:01Z",
            "2026-01-01T23:59:59Z",
            "2026-01-31T00:00:00Z",
            "2026-02-01T00:00:00Z",
            "2026-12-31T23:59:59Z",
            "2027-01-01T00:00:00Z",
            "2130-01-01T00:00:00Z",
        ];
        assert!(times.windows(2).all(|pair| moment(pair[0].as_bytes()) < moment(pair[1].as_bytes())));
        assert_eq!(["1999-01-01T00:00:00Z", "2026-01-01T00:00:0x", "2"].map(|time| moment(time.as_bytes())), [0; 3]);
    }

    #[test]
    fn last_write_takes_no_memory_in_the_cache() {
        use crate::stored::Stored;
        assert_eq!(size_of::<Stored<u8>>(), 2 * size_of::<usize>());
    }
}

//! The pods in protobuf.

use std::ops::Range;

use pintle_json::json;
use pintle_schema::protobuf::{Enveloped, ListEnvelope};

use super::{DIGITS, Pods, put_version};

/// A list of all pods, and an update of each pod.
pub(crate) struct Protobuf {
    list: Vec<u8>,
    updates: Vec<u8>,
    places: Vec<Place>,
}

/// The byte range of an update.
struct Place {
    update: Range<usize>,
    /// The offset of the pod's resourceVersion.
    version: usize,
}

/// The tag and the length of the resourceVersion in an encoded pod.
const VERSION_HEAD: [u8; 2] = [0x32, DIGITS as u8];

impl Protobuf {
    pub(crate) fn new(pods: &Pods) -> Self {
        let (mut updates, mut places) = (Vec::new(), Vec::new());
        let mut list = ListEnvelope::new(&json!({"resourceVersion": pods.version().to_string()})).expect("metadata");
        let mut items = Vec::new();
        let mut pod = Vec::new();
        for number in 0..pods.len() {
            pod.clear();
            pods.put(number, None, &mut pod);
            let pod = serde_json::from_slice(&pod).expect("a pod is JSON");
            let pod = Enveloped::document(&pod).expect("a pod has a schema");
            list.announce(&pod.message);
            ListEnvelope::item(&pod.message, &mut items);
            let update = pod.frame("MODIFIED");
            let version = update
                .windows(2 + DIGITS)
                .position(|bytes| bytes.starts_with(&VERSION_HEAD) && bytes[2..].iter().all(u8::is_ascii_digit));
            let start = updates.len();
            updates.extend_from_slice(&update);
            places.push(Place {
                update: start..updates.len(),
                version: start + 2 + version.expect("a pod has a resourceVersion"),
            });
        }
        let list = [&list.begin("v1", "PodList")[..], &items, &ListEnvelope::END].concat();
        Self { list, updates, places }
    }

    pub(crate) fn list(&self) -> &[u8] {
        &self.list
    }

    /// Appends the frame of an update. If `version` is set, it replaces the pod's resourceVersion.
    pub(crate) fn put_update(&self, pod: usize, version: Option<u64>, out: &mut Vec<u8>) {
        let place = &self.places[pod];
        let start = out.len();
        out.extend_from_slice(&self.updates[place.update.clone()]);
        if let Some(version) = version {
            put_version(&mut out[start + place.version - place.update.start..], version);
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_schema::protobuf::decode;

    use super::*;

    #[test]
    fn updates_and_the_list_contain_the_pods() {
        let pods = Pods::new(30);
        let protobuf = Protobuf::new(&pods);
        assert!(protobuf.list().starts_with(b"k8s\0"));
        let position = |text: &str| protobuf.list().windows(text.len()).position(|bytes| bytes == text.as_bytes());
        let uids: Vec<serde_json::Value> =
            serde_json::from_slice(&[b"[", pods.list(0..30), b"]"].concat()).expect("pods");
        let places: Vec<_> = uids.iter().map(|pod| position(pod["metadata"]["uid"].as_str().expect("a uid"))).collect();
        assert!(places.is_sorted() && places[0].is_some(), "{places:?}");
        let expected = &uids[7];
        let mut update = Vec::new();
        protobuf.put_update(7, Some(2_000_000_000), &mut update);
        let body = update.windows(4).position(|bytes| bytes == b"k8s\0").expect("an envelope");
        let pod = decode(&update[body..], ("v1", "Pod")).expect("a pod");
        assert_eq!(pod.text("/metadata/resourceVersion"), "2000000000");
        assert_eq!(pod.text("/metadata/uid"), expected["metadata"]["uid"]);
    }
}

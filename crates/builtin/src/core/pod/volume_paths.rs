//! Warnings about overlapping file paths in a volume.

use std::fmt;

use pintle_json::Json;

/// A file in a volume. In a projected volume, `source` names the source of the file. In a volume that is not projected,
/// `source` is empty.
#[derive(Clone, PartialEq, Eq)]
struct File {
    path: String,
    source: String,
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.as_str() {
            "" => write!(f, "{:?}", self.path),
            source => write!(f, "{:?} ({source})", self.path),
        }
    }
}

pub(super) fn overlaps(volumes: &[&Json]) -> Vec<String> {
    let mut found = Vec::new();
    for volume in volumes {
        let name = volume.text("/name");
        for (source, described) in [
            ("configMap", format!("ConfigMap {:?}", volume.text("/configMap/name"))),
            ("secret", format!("Secret {:?}", volume.text("/secret/secretName"))),
            ("downwardAPI", "DownwardAPI".to_owned()),
        ] {
            let files = items(volume, &format!("/{source}/items"), "");
            found.extend(collisions(files).map(|pair| warning(name, &described, &pair)));
        }
        let mut files = Vec::new();
        for source in volume.list("/projected/sources") {
            if source.is_empty() {
                found.push(format!("volume {name:?} (Projected) has no sources provided"));
            }
            files.extend(projected(source));
        }
        found.extend(collisions(files).map(|pair| warning(name, "Projected", &pair)));
    }
    found
}

fn warning(volume: &str, kind: &str, pair: &str) -> String {
    format!("volume {volume:?} ({kind}): overlapping paths: {pair}")
}

/// The approximate maximum size of all messages about a volume, in bytes. The response headers cannot contain more than
/// this size.
const MAX_BYTES: usize = 64 << 10;
/// The approximate maximum number of pairs of files to compare.
const MAX_PAIRS: usize = 10_000;

/// Returns a message for each pair of files with equal or nested paths, sorted by the second file of the pair.
fn collisions(mut files: Vec<File>) -> impl Iterator<Item = String> {
    let mut places = Vec::new();
    for (at, file) in files.iter_mut().enumerate() {
        file.path.truncate(file.path.trim_end_matches('/').len());
        if !file.path.is_empty() {
            places.push((format!("{}/", file.path), at));
        }
    }
    // Sort the paths, so that the descendants of a path directly follow it.
    places.sort_unstable();
    let (mut above, mut pairs): (Vec<&(String, usize)>, _) = (Vec::new(), Vec::new());
    for place in &places {
        while above.pop_if(|other| !place.0.starts_with(&other.0)).is_some() {}
        pairs.extend(above.iter().map(|other| (place.1.max(other.1), place.1.min(other.1))));
        above.push(place);
        if pairs.len() > MAX_PAIRS {
            break;
        }
    }
    pairs.sort_unstable();
    let mut bytes = 0;
    let pairs = pairs.into_iter().map(move |(later, earlier)| format!("{} with {}", files[later], files[earlier]));
    pairs.take_while(move |pair| {
        let is_shown = bytes < MAX_BYTES;
        bytes += pair.len();
        is_shown
    })
}

fn items(object: &Json, pointer: &str, source: &str) -> Vec<File> {
    object.list(pointer).map(|item| File { path: item.text("/path").into(), source: source.into() }).collect()
}

fn projected(source: &Json) -> Vec<File> {
    let source_name = |kind: &str, pointer: &str| format!("{kind} {:?}", source.text(pointer));
    let file = |pointer: &str, of: String| File { path: source.text(pointer).into(), source: of };
    match () {
        () if source.has("/configMap/items") => {
            items(source, "/configMap/items", &source_name("ConfigMap", "/configMap/name"))
        }
        () if source.has("/secret/items") => items(source, "/secret/items", &source_name("Secret", "/secret/name")),
        () if source.has("/downwardAPI/items") => items(source, "/downwardAPI/items", "DownwardAPI"),
        () if source.has("/serviceAccountToken") => {
            vec![file("/serviceAccountToken/path", "ServiceAccountToken".into())]
        }
        () if source.has("/clusterTrustBundle") => {
            let by = if source.has("/clusterTrustBundle/name") { "name" } else { "signerName" };
            let bundle = source_name("ClusterTrustBundle", &format!("/clusterTrustBundle/{by}"));
            vec![file("/clusterTrustBundle/path", bundle)]
        }
        () => [
            ("certificateChainPath", "PodCertificate chain"),
            ("keyPath", "PodCertificate key"),
            ("credentialBundlePath", "PodCertificate credential bundle"),
        ]
        .into_iter()
        .map(|(key, of)| file(&format!("/podCertificate/{key}"), of.into()))
        .filter(|file| !file.path.is_empty())
        .collect(),
    }
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;

    use super::*;

    fn files(paths: impl IntoIterator<Item = String>) -> Vec<File> {
        paths.into_iter().map(|path| File { path, source: String::new() }).collect()
    }

    #[test]
    fn nested_and_equal_paths_are_paired_in_file_order() {
        let paths = ["a/b", "c", "a-b", "a/b/", "a", "", "a/b/c"].map(str::to_owned);
        let pairs: Vec<_> = collisions(files(paths)).collect();
        let expected = [("a/b", "a/b"), ("a", "a/b"), ("a", "a/b"), ("a/b/c", "a/b"), ("a/b/c", "a/b"), ("a/b/c", "a")];
        assert_eq!(pairs, expected.map(|(later, earlier)| format!("{later:?} with {earlier:?}")));
    }

    #[test]
    fn collision_search_is_linear_and_bounds_its_output() {
        assert!(is_linear(2_000, |count| {
            assert_eq!(collisions(files((0..count).map(|at| format!("d{}/{at}", at % 7)))).count(), 0);
        }));
        assert!(is_linear(2_000, |count| {
            let bytes: usize = collisions(files((0..count).map(|_| "a/b".to_owned()))).map(|pair| pair.len()).sum();
            assert!((1..MAX_BYTES + 100).contains(&bytes), "{bytes}");
        }));
    }
}

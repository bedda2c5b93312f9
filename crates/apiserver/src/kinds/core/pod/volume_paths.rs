//! Warnings about files of one volume that hide each other.

use std::fmt;

use pintle_json::Json;

/// A file in a volume, and what it comes from where there may be several.
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

/// Files of one volume that take each other's place.
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
            found.extend(collisions(files).map(|pair| told(name, &described, &pair)));
        }
        let mut files = Vec::new();
        for source in volume.list("/projected/sources") {
            if source.is_empty() {
                found.push(format!("volume {name:?} (Projected) has no sources provided"));
            }
            files.extend(projected(source));
        }
        found.extend(collisions(files).map(|pair| told(name, "Projected", &pair)));
    }
    found
}

fn told(volume: &str, kind: &str, pair: &str) -> String {
    format!("volume {volume:?} ({kind}): overlapping paths: {pair}")
}

/// The pairs of files of which one is, or lies below, the other.
fn collisions(files: Vec<File>) -> impl Iterator<Item = String> {
    let mut seen: Vec<File> = Vec::new();
    let mut found = Vec::new();
    for mut file in files {
        file.path.truncate(file.path.trim_end_matches('/').len());
        let below = |one: &File, other: &File| format!("{}/", one.path).starts_with(&format!("{}/", other.path));
        let others = seen.iter().filter(|other| !other.path.is_empty() && !file.path.is_empty());
        found.extend(
            others
                .filter(|other| below(other, &file) || below(&file, other))
                .map(|other| format!("{file} with {other}")),
        );
        seen.push(file);
    }
    found.into_iter()
}

fn items(object: &Json, pointer: &str, source: &str) -> Vec<File> {
    object.list(pointer).map(|item| File { path: item.text("/path").into(), source: source.into() }).collect()
}

/// The files of one source of a projected volume.
fn projected(source: &Json) -> Vec<File> {
    let named = |kind: &str, pointer: &str| format!("{kind} {:?}", source.text(pointer));
    let file = |pointer: &str, of: String| File { path: source.text(pointer).into(), source: of };
    match () {
        () if source.has("/configMap/items") => {
            items(source, "/configMap/items", &named("ConfigMap", "/configMap/name"))
        }
        () if source.has("/secret/items") => items(source, "/secret/items", &named("Secret", "/secret/name")),
        () if source.has("/downwardAPI/items") => items(source, "/downwardAPI/items", "DownwardAPI"),
        () if source.has("/serviceAccountToken") => {
            vec![file("/serviceAccountToken/path", "ServiceAccountToken".into())]
        }
        () if source.has("/clusterTrustBundle") => {
            let by = if source.has("/clusterTrustBundle/name") { "name" } else { "signerName" };
            let bundle = named("ClusterTrustBundle", &format!("/clusterTrustBundle/{by}"));
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

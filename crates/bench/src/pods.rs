//! The pods of the load server. Each pod has about 8 KB of JSON and resembles a pod of a Deployment in a real cluster.
//!
//! Each replica set has 20 pods, each node has 100 pods, and there are 200 namespaces. The resource versions are in
//! random order. The random seed is fixed, so the pods depend only on their number.

mod protobuf;

use std::fmt::Write as _;
use std::ops::Range;

use fastrand::Rng;

pub(crate) use protobuf::Protobuf;

/// The JSON of the pods, formatted as list items.
pub(crate) struct Pods {
    json: Vec<u8>,
    places: Vec<Place>,
    /// The resourceVersion of the list.
    version: u64,
}

/// The byte range of a pod in the JSON text.
struct Place {
    pod: Range<usize>,
    /// The offset of the pod's resourceVersion in the JSON text.
    version: usize,
}

const DIGITS: usize = 10;
const FIRST_VERSION: u64 = 1_000_000_000;

impl Pods {
    pub(crate) fn new(n: usize) -> Self {
        let mut rng = Rng::with_seed(1);
        let nodes = (n / 100).max(1);
        let namespaces: Vec<String> = (0..n.clamp(1, 200))
            .map(|i| format!("{}-{}-{i}", word(&mut rng), ["prod", "stage", "dev"][i % 3]))
            .collect();
        let digests: Vec<String> = (0..300).map(|_| hex(&mut rng, 64)).collect();
        let sets: Vec<ReplicaSet> =
            (0..(n / 20).max(1)).map(|_| ReplicaSet::new(&mut rng, &namespaces, &digests)).collect();
        let mut json = String::new();
        let places = (0..n).map(|i| {
            if i > 0 {
                json.push(',');
            }
            let start = json.len();
            let address = format!("{}.{}.{}", 64 + i / 65536, i / 256 % 256, i % 256);
            let version = FIRST_VERSION + 1 + rng.u64(0..n as u64);
            let version = sets[i % sets.len()].put_pod(&mut rng, nodes, &address, version, &mut json);
            Place { pod: start..json.len(), version }
        });
        let places = places.collect();
        Self { json: json.into_bytes(), places, version: FIRST_VERSION + n as u64 }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the comma-separated JSON of a range of pods.
    pub(crate) fn list(&self, range: Range<usize>) -> &[u8] {
        match self.places.get(range) {
            Some([first, .., last]) => &self.json[first.pod.start..last.pod.end],
            Some([only]) => &self.json[only.pod.clone()],
            Some([]) | None => &[],
        }
    }

    /// Writes a pod with `kind` and `apiVersion`, as in watch events. If `version` is set, it replaces the pod's
    /// resourceVersion.
    pub(crate) fn put(&self, pod: usize, version: Option<u64>, out: &mut Vec<u8>) {
        let place = &self.places[pod];
        out.extend_from_slice(br#"{"kind":"Pod","apiVersion":"v1","#);
        let inside = place.pod.start + 1;
        let start = out.len();
        out.extend_from_slice(&self.json[inside..place.pod.end]);
        if let Some(version) = version {
            put_version(&mut out[start + place.version - inside..], version);
        }
    }

    /// Assigns new resource versions to `changed` pods, which are spread evenly over the list.
    pub(crate) fn change(&mut self, changed: usize) {
        for i in 0..changed {
            self.version += 1;
            let place = &self.places[i * self.places.len() / changed];
            put_version(&mut self.json[place.version..], self.version);
        }
    }
}

fn put_version(place: &mut [u8], version: u64) {
    place[..DIGITS].copy_from_slice(format!("{version:0DIGITS$}").as_bytes());
}

/// The values shared by all pods of a replica set.
struct ReplicaSet {
    name: String,
    /// The creation time of the first pod, in seconds since the start of the year.
    since: u64,
    /// A pod template with placeholders for the fields that differ between pods.
    pod: String,
}

impl ReplicaSet {
    fn new(rng: &mut Rng, namespaces: &[String], digests: &[String]) -> Self {
        // Remove the line breaks, which only serve to make the template readable.
        let template: String = include_str!("pods/pod.json").lines().collect();
        let app = format!("{}-{}", word(rng), word(rng));
        let hash = letters(rng, 10);
        let name = format!("{app}-{hash}");
        let [main, proxy] = [0, 1].map(|_| Image::new(rng, digests));
        let resources = |rng: &mut Rng| (format!("{}m", 50 * rng.u32(1..11)), format!("{}Mi", 64 * rng.u32(1..17)));
        let (resources, proxy_resources) = (resources(rng), resources(rng));
        let mut app_env = env(rng, 2..5, namespaces);
        app_env.push(("POD_NAME".to_owned(), Value::Field("metadata.name")));
        if rng.bool() {
            app_env.push(("DB_PASSWORD".to_owned(), Value::Secret(format!("{app}-secrets"))));
        }
        let mut proxy_env = env(rng, 0..3, namespaces);
        proxy_env.push(("POD_NAME".to_owned(), Value::Field("metadata.name")));
        proxy_env.push(("POD_NAMESPACE".to_owned(), Value::Field("metadata.namespace")));
        let fields: String = app_env.iter().map(|(name, value)| value.managed_field(name)).collect();
        let (app_env, proxy_env) = (env_json(&app_env), env_json(&proxy_env));
        let namespace = any(rng, namespaces).clone();
        let (team, tier, uid) = (*any(rng, TEAMS), *any(rng, TIERS), uid(rng));
        let path = *any(rng, &["/healthz", "/ready"]);
        let mut pod = String::new();
        fill(&template, &mut pod, |slot, pod| {
            pod.push_str(match slot {
                "set" => &name,
                "set-uid" => &uid,
                "namespace" => &namespace,
                "app" => &app,
                "part-of" => app.split('-').next().unwrap_or_default(),
                "tag" => &main.tag,
                "hash" => &hash,
                "team" => team,
                "tier" => tier,
                "path" => path,
                "app-image" => &main.name,
                "app-image-id" => &main.id,
                "app-cpu" => &resources.0,
                "app-memory" => &resources.1,
                "app-env" => &app_env,
                "app-env-fields" => &fields,
                "proxy-image" => &proxy.name,
                "proxy-image-id" => &proxy.id,
                "proxy-cpu" => &proxy_resources.0,
                "proxy-memory" => &proxy_resources.1,
                "proxy-env" => &proxy_env,
                _ => return false,
            });
            true
        });
        Self { name, since: 86_400 * rng.u64(0..300), pod }
    }

    /// Appends a pod to the text and returns the offset of its resourceVersion.
    fn put_pod(&self, rng: &mut Rng, nodes: usize, address: &str, version: u64, json: &mut String) -> usize {
        let created = self.since + rng.u64(0..86_400);
        let node = rng.usize(..nodes);
        let host = format!("{}.{}.{}", 64 + node / 65536, node / 256 % 256, node % 256);
        let (name, token, pod_uid) = (letters(rng, 5), letters(rng, 5), uid(rng));
        let mut version_at = 0;
        fill(&self.pod, json, |slot, json| {
            let _ = match slot {
                "name" => write!(json, "{}-{name}", self.name),
                "uid" => json.write_str(&pod_uid),
                "version" => {
                    version_at = json.len();
                    write!(json, "{version:0DIGITS$}")
                }
                "token" => write!(json, "kube-api-access-{token}"),
                "checksum" | "container" => json.write_str(&hex(rng, 64)),
                "created" => put_time(json, created),
                "begun" => put_time(json, created + 1),
                "mounted" => put_time(json, created + 8),
                "ready" => put_time(json, created + 40),
                "app-started" | "proxy-started" => put_time(json, created + rng.u64(5..25)),
                "restarts" => write!(json, "{}", rng.u32(0..3)),
                "node" => write!(json, "ip-10-{}.eu-west-1.compute.internal", host.replace('.', "-")),
                "host" => write!(json, "10.{host}"),
                "ip" => write!(json, "100.{address}"),
                _ => return false,
            };
            true
        });
        version_at
    }
}

struct Image {
    name: String,
    tag: String,
    id: String,
}

impl Image {
    fn new(rng: &mut Rng, digests: &[String]) -> Self {
        let repository = format!("registry.example.com/{}/{}", any(rng, TEAMS), word(rng));
        let tag = format!("v{}.{}.{}", rng.u32(1..4), rng.u32(0..20), rng.u32(0..30));
        let (name, id) = (format!("{repository}:{tag}"), format!("{repository}@sha256:{}", any(rng, digests)));
        Self { name, tag, id }
    }
}

enum Value {
    Plain(String),
    Field(&'static str),
    Secret(String),
}

impl Value {
    fn json(&self) -> String {
        match self {
            Self::Plain(text) => format!(r#""value":"{text}""#),
            Self::Field(path) => format!(r#""valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"{path}"}}}}"#),
            Self::Secret(name) => format!(r#""valueFrom":{{"secretKeyRef":{{"name":"{name}","key":"password"}}}}"#),
        }
    }

    fn managed_field(&self, name: &str) -> String {
        let value = match self {
            Self::Plain(_) => r#""f:value":{}"#,
            Self::Field(_) => r#""f:valueFrom":{".":{},"f:fieldRef":{}}"#,
            Self::Secret(_) => r#""f:valueFrom":{".":{},"f:secretKeyRef":{}}"#,
        };
        format!(r#","k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:name":{{}},{value}}}"#)
    }
}

/// Creates environment variables. One in four variables contains a URL.
fn env(rng: &mut Rng, how_many: Range<usize>, namespaces: &[String]) -> Vec<(String, Value)> {
    let n = rng.usize(how_many);
    let variable = |i: usize| {
        let suffix = ["URL", "TIMEOUT", "HOST", "LEVEL"][i % 4];
        let name = format!("{}_{}_{suffix}", word(rng), word(rng)).to_uppercase();
        let value = match i % 4 {
            0 => format!("http://{}.{}.svc.cluster.local:{}/v1", word(rng), any(rng, namespaces), rng.u32(8000..8100)),
            _ => rng.u32(0..10_000).to_string(),
        };
        (name, Value::Plain(value))
    };
    (0..n).map(variable).collect()
}

fn env_json(env: &[(String, Value)]) -> String {
    let env: Vec<String> = env.iter().map(|(name, value)| format!(r#"{{"name":"{name}",{}}}"#, value.json())).collect();
    env.join(",")
}

/// Copies the template, and calls `put` to write the value of each placeholder `<slot>`. If `put` returns `false`,
/// copies the placeholder unchanged.
fn fill(template: &str, out: &mut String, mut put: impl FnMut(&str, &mut String) -> bool) {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        let (slot, after) = after.split_once('>').expect("a slot ends");
        if !put(slot, out) {
            let _ = write!(out, "<{slot}>");
        }
        rest = after;
    }
    out.push_str(rest);
}

/// Writes the time `seconds` after the start of the year as a timestamp. For simplicity, every month has 28 days.
fn put_time(out: &mut String, seconds: u64) -> std::fmt::Result {
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (month, day, hour, minute) = (1 + day / 28 % 12, 1 + day % 28, second / 3600, second / 60 % 60);
    write!(out, "2026-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

fn uid(rng: &mut Rng) -> String {
    let hex = hex(rng, 32);
    format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

fn hex(rng: &mut Rng, digits: usize) -> String {
    (0..digits / 16).map(|_| format!("{:016x}", rng.u64(..))).collect()
}

/// Returns random letters without vowels, like the suffixes that Kubernetes generates for names.
fn letters(rng: &mut Rng, n: usize) -> String {
    (0..n).map(|_| char::from(*any(rng, b"bcdfghjklmnpqrstvwxz2456789"))).collect()
}

fn word(rng: &mut Rng) -> &'static str {
    WORDS[rng.usize(..WORDS.len())]
}

fn any<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.usize(..of.len())]
}

const TEAMS: &[&str] = &["amber", "basalt", "cobalt", "dolomite", "feldspar", "garnet", "jasper", "topaz"];
const TIERS: &[&str] = &["backend", "batch", "data", "frontend"];
const WORDS: &[&str] = &[
    "account",
    "archive",
    "audit",
    "basket",
    "booking",
    "bridge",
    "broker",
    "calendar",
    "campaign",
    "claims",
    "comment",
    "contract",
    "dashboard",
    "delivery",
    "device",
    "dispatch",
    "document",
    "export",
    "forecast",
    "gateway",
    "history",
    "import",
    "invoice",
    "ledger",
    "license",
    "mailer",
    "market",
    "message",
    "meter",
    "notice",
    "offer",
    "parcel",
    "partner",
    "payment",
    "policy",
    "portal",
    "quote",
    "ranking",
    "receipt",
    "refund",
    "registry",
    "rental",
    "report",
    "review",
    "roster",
    "schedule",
    "search",
    "session",
    "signal",
    "stock",
    "survey",
    "tariff",
    "ticket",
    "timeline",
    "tracker",
    "transfer",
    "voucher",
    "wallet",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &[u8]) -> serde_json::Value {
        serde_json::from_slice(json).expect("a pod is JSON")
    }

    #[test]
    fn pods_are_complete_and_have_about_8_kilobytes() {
        let pods = Pods::new(400);
        let list = parse(&[b"[", pods.list(0..400), b"]"].concat());
        assert!(!list.to_string().contains('<'), "a slot was not filled");
        let names: std::collections::BTreeSet<_> =
            list.as_array().expect("a list").iter().map(|pod| pod["metadata"]["name"].to_string()).collect();
        assert_eq!(names.len(), 400);
        let sizes: Vec<usize> = pods.places.iter().map(|place| place.pod.len()).collect();
        assert!(sizes.iter().all(|size| (7500..8500).contains(size)), "{sizes:?}");
        assert_eq!(list[7], parse(pods.list(7..8)));
        assert_eq!(Pods::new(400).json, pods.json);
    }

    #[test]
    fn change_increases_the_versions_of_some_pods() {
        let mut pods = Pods::new(100);
        let version = |pods: &Pods, i: usize| parse(pods.list(i..i + 1))["metadata"]["resourceVersion"].clone();
        let (first, second) = (version(&pods, 0), version(&pods, 1));
        pods.change(10);
        assert_ne!(first, second);
        assert!(first.as_str() < Some("1000000101") && second.as_str() < Some("1000000101"));
        assert_eq!([version(&pods, 0), version(&pods, 1)], ["1000000101".into(), second]);
        assert_eq!(pods.version(), 1_000_000_110);
        let mut event = Vec::new();
        pods.put(1, Some(2_000_000_000), &mut event);
        let event = parse(&event);
        assert_eq!((&event["kind"], &event["metadata"]["resourceVersion"]), (&"Pod".into(), &"2000000000".into()));
    }
}

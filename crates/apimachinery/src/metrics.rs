//! Request metrics for `/metrics`, with the same names and buckets as in kube-apiserver.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use pintle_meta::__private::Mutex;

use crate::verb::RequestVerb;

/// The maximum number of distinct label sets. Once the maximum is reached, requests with a new label set are not
/// counted. The maximum limits memory use, because clients can send arbitrary resources and versions.
const MAX_SERIES: usize = 10_000;

/// The upper bounds of the histogram buckets, in seconds.
const BOUNDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestLabels {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub scope: &'static str,
    pub verb: &'static str,
    pub dry_run: bool,
    /// The value of the label `component`, which is `apiserver` for most paths. The label is empty for paths that all
    /// Kubernetes components serve, such as `/healthz`.
    pub component: &'static str,
}

#[derive(Clone, Debug, Default)]
struct RequestSeries {
    by_code: BTreeMap<u16, u64>,
    seconds: f64,
    count: u64,
    within: [u64; BOUNDS.len()],
}

#[derive(Debug, Default)]
pub struct Metrics(Mutex<BTreeMap<RequestLabels, RequestSeries>>);

impl Metrics {
    pub fn count(&self, labels: RequestLabels, code: u16, took: Duration) {
        let mut all = self.0.lock();
        if all.len() >= MAX_SERIES && !all.contains_key(&labels) {
            return;
        }
        let series = all.entry(labels).or_default();
        *series.by_code.entry(code).or_default() += 1;
        series.count += 1;
        series.seconds += took.as_secs_f64();
        for (within, bound) in series.within.iter_mut().zip(BOUNDS) {
            *within += u64::from(took.as_secs_f64() <= bound);
        }
    }

    pub fn text(&self, version: &str) -> String {
        let all = self.0.lock().clone();
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            std::mem::take(&mut text)
        };
        let mut out = family(
            "apiserver_request_duration_seconds",
            "histogram",
            "[STABLE] Seconds from the receipt of a request to its response.",
        );
        for (labels, series) in &all {
            write_durations(&mut out, &labels.text(""), series);
        }
        out += &family(
            "apiserver_request_total",
            "counter",
            "[STABLE] Requests by their labels and the HTTP status code.",
        );
        for (labels, series) in &all {
            for (code, count) in &series.by_code {
                let labels = labels.text(&format!("code=\"{code}\","));
                let _ = writeln!(out, "apiserver_request_total{{{labels}}} {count}");
            }
        }
        out +=
            &family("kubernetes_build_info", "gauge", "[ALPHA] The version of Kubernetes that this server emulates.");
        let _ = writeln!(out, "kubernetes_build_info{{git_version=\"{version}\",major=\"1\",minor=\"36\"}} 1");
        out
    }
}

fn write_durations(out: &mut String, labels: &str, series: &RequestSeries) {
    const NAME: &str = "apiserver_request_duration_seconds";
    for (bound, within) in BOUNDS.iter().zip(series.within) {
        let _ = writeln!(out, "{NAME}_bucket{{{labels},le=\"{bound}\"}} {within}");
    }
    let RequestSeries { count, seconds, .. } = series;
    let _ = writeln!(out, "{NAME}_bucket{{{labels},le=\"+Inf\"}} {count}");
    let _ = writeln!(out, "{NAME}_sum{{{labels}}} {seconds}\n{NAME}_count{{{labels}}} {count}");
}

impl RequestLabels {
    pub fn of_path(path: &str, method: &str) -> Option<Self> {
        let mut parts = path.trim_start_matches('/').split('/');
        let (subresource, component) = match (parts.next()?, parts.next()) {
            (part @ ("healthz" | "livez" | "readyz" | "metrics" | "version"), _) => (format!("/{part}"), ""),
            ("openapi", Some(version @ ("v2" | "v3"))) => (format!("openapi/{version}"), ""),
            (part @ ("api" | "apis"), _) => (part.to_owned(), "apiserver"),
            _ => return None,
        };
        let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let verb = known.into_iter().find(|known| *known == method).unwrap_or("other");
        Some(Self { subresource, component, verb, ..Self::default() })
    }

    /// Returns the labels in the metrics format. The label `code` comes first, and the other labels are sorted by name.
    fn text(&self, code: &str) -> String {
        let Self { group, version, resource, subresource, scope, verb, dry_run, component } = self;
        let dry_run = if *dry_run { "All" } else { "" };
        let [group, version, resource, subresource] = [group, version, resource, subresource].map(|text| escaped(text));
        format!(
            "{code}component=\"{component}\",dry_run=\"{dry_run}\",group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",\
             subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns the `verb` label. The `verb` label of an apply patch request is `APPLY`.
pub fn verb_label(verb: RequestVerb, is_apply: bool) -> &'static str {
    match verb {
        RequestVerb::Create => "POST",
        RequestVerb::Update => "PUT",
        RequestVerb::Patch if is_apply => "APPLY",
        RequestVerb::Patch => "PATCH",
        RequestVerb::Get => "GET",
        RequestVerb::List => "LIST",
        RequestVerb::Watch => "WATCH",
        RequestVerb::Delete => "DELETE",
        RequestVerb::DeleteCollection => "DELETECOLLECTION",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(resource: &str) -> RequestLabels {
        RequestLabels {
            version: "v1".into(),
            resource: resource.into(),
            scope: "cluster",
            verb: "LIST",
            component: "apiserver",
            ..RequestLabels::default()
        }
    }

    #[test]
    fn requests_are_counted_by_status_and_timed() {
        let metrics = Metrics::default();
        for (code, millis) in [(200, 1), (200, 300), (404, 90_000)] {
            metrics.count(labels("pods"), code, Duration::from_millis(millis));
        }
        let text = metrics.text("v1.36.1");
        let shared = r#"component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1""#;
        for line in [
            format!("apiserver_request_total{{code=\"200\",{shared}}} 2"),
            format!("apiserver_request_total{{code=\"404\",{shared}}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{shared},le=\"0.005\"}} 1"),
            format!("apiserver_request_duration_seconds_bucket{{{shared},le=\"0.4\"}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{{shared},le=\"60\"}} 2"),
            format!("apiserver_request_duration_seconds_bucket{{{shared},le=\"+Inf\"}} 3"),
            format!("apiserver_request_duration_seconds_count{{{shared}}} 3"),
            "# TYPE apiserver_request_total counter".into(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn invented_resources_use_bounded_memory() {
        let metrics = Metrics::default();
        for at in 0..MAX_SERIES + 10 {
            metrics.count(labels(&format!("r{at}")), 404, Duration::ZERO);
        }
        metrics.count(labels("r0"), 404, Duration::ZERO);
        let all = metrics.0.lock();
        assert_eq!((all.len(), all[&labels("r0")].count), (MAX_SERIES, 2));
        assert_eq!(escaped("a\"b\\\n"), "a\\\"b\\\\\\n");
    }
}

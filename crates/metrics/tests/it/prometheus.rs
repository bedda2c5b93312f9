//! Tests of the in-memory provider as a collector of a Prometheus registry.

use pintle_metrics::{InMemoryProvider, Metric, MetricKind, Provider};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

static SENT: Metric = Metric { name: "sent_total", help: "Mails sent", kind: MetricKind::Counter, labels: &["host"] };
static OPEN: Metric = Metric { name: "open", help: "Open doors", kind: MetricKind::Gauge, labels: &[] };
static TIME: Metric =
    Metric { name: "time", help: "Times", kind: MetricKind::Histogram(&[0.5, 1.0]), labels: &["verb"] };

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

#[test]
fn scrape_shows_live_series() {
    let (memory, mut registry) = (InMemoryProvider::new(), Registry::default());
    registry.register_collector(Box::new(memory.clone()));
    assert_eq!(text(&registry), "# EOF\n");

    let sent = ["a\"\\\n", "b"].map(|host| memory.counter(&SENT, &[host]));
    let pulled = memory.pulled(&OPEN, &[], Box::new(|| 1.5));
    let time = memory.histogram(&TIME, &["GET"]);
    sent[1].add(3);
    [0.5, 0.75, 9.0].iter().for_each(|seconds| time.observe(*seconds));
    let expected = r#"# HELP open Open doors
# TYPE open gauge
open{} 1.5
# HELP sent Mails sent
# TYPE sent counter
sent_total{host="a\"\\\n"} 0
sent_total{host="b"} 3
# HELP time Times
# TYPE time histogram
time_sum{verb="GET"} 10.25
time_count{verb="GET"} 3
time_bucket{le="0.5",verb="GET"} 1
time_bucket{le="1.0",verb="GET"} 2
time_bucket{le="+Inf",verb="GET"} 3
# EOF
"#;
    assert_eq!(text(&registry), expected);
    drop((sent, pulled, time));
    assert_eq!(text(&registry), "# EOF\n");
}

#[test]
fn registry_prefix_and_labels_are_kept() {
    let (memory, mut registry) = (InMemoryProvider::new(), Registry::default());
    let labels = [("pod".into(), "p".into())];
    registry
        .sub_registry_with_prefix("my")
        .sub_registry_with_labels(labels.into_iter())
        .register_collector(Box::new(memory.clone()));
    let _sent = memory.counter(&SENT, &["a"]);
    assert!(text(&registry).contains("my_sent_total{pod=\"p\",host=\"a\"} 0"), "{}", text(&registry));
}

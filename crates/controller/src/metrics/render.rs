use std::fmt::{self, Write};
use std::slice;

use super::{ControllerMetrics, Distribution};

/// Writes the counters of all controllers of a process in Prometheus' text format. The format wants all samples of one metric
/// together, so they cannot be written one controller after the other.
pub fn prometheus_text(controllers: &[ControllerMetrics]) -> String {
    let mut text = String::new();
    // A string takes whatever is written.
    let _ = write_all(&mut text, controllers);
    text
}

impl fmt::Display for ControllerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_all(f, slice::from_ref(self))
    }
}

type Read = fn(&ControllerMetrics) -> f64;

const COUNTERS: [(&str, Read); 4] = [
    ("controller_runtime_reconcile_errors_total", |metrics| metrics.errors as f64),
    ("controller_runtime_terminal_reconcile_errors_total", |metrics| metrics.terminal_errors as f64),
    ("controller_runtime_reconcile_panics_total", |metrics| metrics.panics as f64),
    ("controller_runtime_reconcile_timeouts_total", |metrics| metrics.timeouts as f64),
];

const GAUGES: [(&str, Read); 2] = [
    ("controller_runtime_max_concurrent_reconciles", |metrics| metrics.max_concurrent_reconciles as f64),
    ("controller_runtime_active_workers", |metrics| metrics.active_workers as f64),
];

const QUEUE_COUNTERS: [(&str, Read); 2] = [
    ("workqueue_adds_total", |metrics| metrics.adds as f64),
    ("workqueue_retries_total", |metrics| metrics.queue_retries as f64),
];

const QUEUE_GAUGES: [(&str, Read); 3] = [
    ("workqueue_depth", |metrics| metrics.depth as f64),
    ("workqueue_unfinished_work_seconds", |metrics| metrics.gauges.unfinished_work.as_secs_f64()),
    ("workqueue_longest_running_processor_seconds", |metrics| metrics.gauges.longest_running_processor.as_secs_f64()),
];

fn write_all(f: &mut impl Write, all: &[ControllerMetrics]) -> fmt::Result {
    let total = "controller_runtime_reconcile_total";
    writeln!(f, "# TYPE {total} counter")?;
    for metrics in all {
        let labels = by_controller(metrics);
        writeln!(f, "{total}{{{labels},result=\"success\"}} {}", metrics.succeeded)?;
        writeln!(f, "{total}{{{labels},result=\"requeue_after\"}} {}", metrics.requeued_after)?;
        writeln!(f, "{total}{{{labels},result=\"error\"}} {}", metrics.errors)?;
    }
    numbers(f, all, "counter", &COUNTERS, by_controller)?;
    numbers(f, all, "gauge", &GAUGES, by_controller)?;
    numbers(f, all, "counter", &QUEUE_COUNTERS, by_queue)?;
    numbers(f, all, "gauge", &QUEUE_GAUGES, by_queue)?;
    histogram(f, all, "controller_runtime_reconcile_time_seconds", by_controller, |metrics| &metrics.reconcile_time)?;
    histogram(f, all, "workqueue_queue_duration_seconds", by_queue, |metrics| &metrics.queue_duration)?;
    histogram(f, all, "workqueue_work_duration_seconds", by_queue, |metrics| &metrics.work_duration)
}

fn by_controller(metrics: &ControllerMetrics) -> String {
    format!("controller=\"{}\"", Label(&metrics.controller))
}

fn by_queue(metrics: &ControllerMetrics) -> String {
    format!("name=\"{0}\",controller=\"{0}\"", Label(&metrics.controller))
}

fn numbers(
    f: &mut impl Write,
    all: &[ControllerMetrics],
    kind: &str,
    table: &[(&str, Read)],
    labels: fn(&ControllerMetrics) -> String,
) -> fmt::Result {
    for (name, read) in table {
        writeln!(f, "# TYPE {name} {kind}")?;
        for metrics in all {
            writeln!(f, "{name}{{{}}} {}", labels(metrics), read(metrics))?;
        }
    }
    Ok(())
}

fn histogram(
    f: &mut impl Write,
    all: &[ControllerMetrics],
    name: &str,
    labels: fn(&ControllerMetrics) -> String,
    read: fn(&ControllerMetrics) -> &Distribution,
) -> fmt::Result {
    writeln!(f, "# TYPE {name} histogram")?;
    for metrics in all {
        let (labels, distribution) = (labels(metrics), read(metrics));
        for (bound, count) in distribution.cumulative() {
            writeln!(f, "{name}_bucket{{{labels},le=\"{}\"}} {count}", bound.as_secs_f64())?;
        }
        let count = distribution.count();
        writeln!(f, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
        writeln!(f, "{name}_sum{{{labels}}} {}", distribution.sum().as_secs_f64())?;
        writeln!(f, "{name}_count{{{labels}}} {count}")?;
    }
    Ok(())
}

/// A label's value, with what the format gives a meaning escaped.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '"' | '\\' => write!(f, "\\{char}"),
            '\n' => f.write_str("\\n"),
            _ => write!(f, "{char}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Metrics, Outcome};
    use super::prometheus_text;

    #[test]
    fn metrics_are_written_by_the_names_of_controller_runtime() {
        let metrics = Metrics::new();
        let outcomes = [Outcome::Success, Outcome::Success, Outcome::Panic, Outcome::Terminal];
        outcomes.into_iter().for_each(|outcome| metrics.count(outcome));
        metrics.queue_duration.record(Duration::from_millis(3));
        let _active = metrics.active();
        let text = metrics.snapshot("web\"site", 4, 7).to_string();
        for line in [
            "controller_runtime_reconcile_total{controller=\"web\\\"site\",result=\"success\"} 2",
            "controller_runtime_reconcile_total{controller=\"web\\\"site\",result=\"error\"} 2",
            "controller_runtime_reconcile_panics_total{controller=\"web\\\"site\"} 1",
            "controller_runtime_terminal_reconcile_errors_total{controller=\"web\\\"site\"} 1",
            "controller_runtime_active_workers{controller=\"web\\\"site\"} 1",
            "workqueue_depth{name=\"web\\\"site\",controller=\"web\\\"site\"} 7",
            "workqueue_queue_duration_seconds_bucket{name=\"web\\\"site\",controller=\"web\\\"site\",le=\"+Inf\"} 1",
            "workqueue_queue_duration_seconds_sum{name=\"web\\\"site\",controller=\"web\\\"site\"} 0.003",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_samples_of_one_metric_stand_together() {
        let metrics = Metrics::new();
        let text = prometheus_text(&[metrics.snapshot("a", 1, 0), metrics.snapshot("b", 1, 0)]);
        let mut types = std::collections::BTreeSet::new();
        let mut current = "";
        for line in text.lines() {
            if let Some(of) = line.strip_prefix("# TYPE ") {
                current = of.split(' ').next().unwrap();
                assert!(types.insert(current), "{current} has two types");
            } else {
                assert!(line.starts_with(current), "{line} is not of {current}");
            }
        }
        assert!(text.contains("workqueue_depth{name=\"a\",controller=\"a\"} 0\nworkqueue_depth{name=\"b\""));
    }
}

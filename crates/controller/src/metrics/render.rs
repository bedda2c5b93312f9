use std::fmt;

use super::{ControllerMetrics, Distribution};

impl fmt::Display for ControllerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = Label(&self.controller);
        let by_controller = format!("controller=\"{label}\"");
        let by_name = format!("name=\"{label}\",controller=\"{label}\"");
        let total = "controller_runtime_reconcile_total";
        writeln!(f, "# TYPE {total} counter")?;
        for (result, value) in
            [("success", self.succeeded), ("requeue_after", self.requeued_after), ("error", self.errors)]
        {
            writeln!(f, "{total}{{{by_controller},result=\"{result}\"}} {value}")?;
        }
        for (name, value) in [
            ("controller_runtime_reconcile_errors_total", self.errors),
            ("controller_runtime_terminal_reconcile_errors_total", self.terminal_errors),
            ("controller_runtime_reconcile_panics_total", self.panics),
            ("controller_runtime_reconcile_timeouts_total", self.timeouts),
        ] {
            writeln!(f, "# TYPE {name} counter\n{name}{{{by_controller}}} {value}")?;
        }
        for (name, value) in [
            ("controller_runtime_max_concurrent_reconciles", self.max_concurrent_reconciles as u64),
            ("controller_runtime_active_workers", self.active_workers),
        ] {
            writeln!(f, "# TYPE {name} gauge\n{name}{{{by_controller}}} {value}")?;
        }
        for (name, kind, value) in [
            ("workqueue_depth", "gauge", self.depth as u64),
            ("workqueue_adds_total", "counter", self.adds),
            ("workqueue_retries_total", "counter", self.queue_retries),
        ] {
            writeln!(f, "# TYPE {name} {kind}\n{name}{{{by_name}}} {value}")?;
        }
        for (name, value) in [
            ("workqueue_unfinished_work_seconds", self.gauges.unfinished_work),
            ("workqueue_longest_running_processor_seconds", self.gauges.longest_running_processor),
        ] {
            writeln!(f, "# TYPE {name} gauge\n{name}{{{by_name}}} {}", value.as_secs_f64())?;
        }
        histogram(f, "controller_runtime_reconcile_time_seconds", &by_controller, &self.reconcile_time)?;
        histogram(f, "workqueue_queue_duration_seconds", &by_name, &self.queue_duration)?;
        histogram(f, "workqueue_work_duration_seconds", &by_name, &self.work_duration)
    }
}

fn histogram(f: &mut fmt::Formatter<'_>, name: &str, labels: &str, distribution: &Distribution) -> fmt::Result {
    writeln!(f, "# TYPE {name} histogram")?;
    for (bound, count) in distribution.cumulative() {
        writeln!(f, "{name}_bucket{{{labels},le=\"{}\"}} {count}", bound.as_secs_f64())?;
    }
    let count = distribution.count();
    writeln!(f, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}")?;
    writeln!(f, "{name}_sum{{{labels}}} {}", distribution.sum().as_secs_f64())?;
    writeln!(f, "{name}_count{{{labels}}} {count}")
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
}

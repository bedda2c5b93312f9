// Command queue runs one workload of the area `queue` on client-go once and prints one line
// of JSON. The source of the Rust binary `queue` in this crate describes the workloads.
package main

import (
	"k8s.io/client-go/util/workqueue"
	// Metrics for named queues, as in Kubernetes' own components.
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"pintle.dev/bench/internal/meter"
)

func main() {
	type setting = meter.Setting
	type sample = meter.Sample
	meter.Main(map[string]func(setting) sample{
		"add-drain-1":          func(how setting) sample { return addThenDrain(how, 1) },
		"add-drain-8":          func(how setting) sample { return addThenDrain(how, 8) },
		"through-64":           func(how setting) sample { return through(how, 64) },
		"hot":                  hot,
		"cycle":                cycle,
		"same":                 same,
		"fresh":                fresh,
		"add-after":            addAfter,
		"rate-limited":         rateLimitedByItem,
		"rate-limited-default": rateLimitedByDefault,
		"item-limiter":         itemLimiter,
		"storm":                storm,
		"counts":               counts,
		"hand-off-half":        func(how setting) sample { return handOff(how, 54_400) },
		"hand-off-fifth":       func(how setting) sample { return handOff(how, 22_400) },
		"busy-100":             func(how setting) sample { return busy(how, 100) },
		"busy-1":               func(how setting) sample { return busy(how, 1) },
		"due":                  due,
		"grow":                 grow,
	})
}

func newQueue(how meter.Setting) workqueue.TypedInterface[string] {
	return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: how.Name()})
}

// drain takes and counts keys until the queue is shut down.
func drain(q workqueue.TypedInterface[string]) int {
	for n := 0; ; n++ {
		key, shutdown := q.Get()
		if shutdown {
			return n
		}
		q.Done(key)
	}
}

// Command queue runs one work of the queue benchmark on client-go, and prints one line of JSON. The Rust binary `queue` of
// this crate runs the same works on Pintle; see its documentation for what each one does.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// sample is what one run of a work measured. Both sides print the same fields.
type sample struct {
	Operations  int     `json:"operations"`
	WallNs      float64 `json:"wall_ns"`
	CPUNs       float64 `json:"cpu_ns"`
	Allocations float64 `json:"allocations"`
	// PeakBytes is how much more memory was resident at the highest point than at the start.
	PeakBytes float64 `json:"peak_bytes"`
}

var works = map[string]func(m *meter){
	"add":          func(m *meter) { addDrain(m, 1_000_000, true, 0) },
	"drain-1":      func(m *meter) { addDrain(m, 1_000_000, false, 1) },
	"drain-8":      func(m *meter) { addDrain(m, 1_000_000, false, 8) },
	"add-drain-1":  func(m *meter) { addDrain(m, 1_000_000, true, 1) },
	"add-drain-8":  func(m *meter) { addDrain(m, 1_000_000, true, 8) },
	"hot":          hot,
	"cycle":        cycle,
	"fresh":        fresh,
	"add-after":    func(m *meter) { addAfter(m, false) },
	"ripen":        func(m *meter) { addAfter(m, true) },
	"rate-limited": func(m *meter) { rateLimited(m, false) },
	"retried":      func(m *meter) { rateLimited(m, true) },
	"item-limiter": itemLimiter,
	"footprint":    func(m *meter) { footprint(m, false) },
	"left-over":    func(m *meter) { footprint(m, true) },
}

func main() {
	if len(os.Args) != 2 || works[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: queue WORK, one of:")
		for work := range works {
			fmt.Fprintln(os.Stderr, "  "+work)
		}
		os.Exit(2)
	}
	m := &meter{}
	works[os.Args[1]](m)
	if err := json.NewEncoder(os.Stdout).Encode(m.sample); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// addDrain adds n distinct keys, then has them drained by so many workers. The adding is measured or not.
func addDrain(m *meter, n int, withAdds bool, workers int) {
	keys := keys(n)
	q := workqueue.NewTyped[string]()
	add := func() {
		for _, key := range keys {
			q.Add(key)
		}
	}
	if !withAdds {
		add()
	}
	m.measure(n, func() {
		if withAdds {
			add()
		}
		q.ShutDown()
		together(workers, func(int) {
			for {
				key, shutdown := q.Get()
				if shutdown {
					return
				}
				q.Done(key)
			}
		})
	})
}

// hot has 8 producers add 100 k keys over and over while 8 consumers take them. An operation is an add, or a get with its done.
func hot(m *meter) {
	const producers, consumers, adds = 8, 8, 250_000
	keys := keys(100_000)
	q := workqueue.NewTyped[string]()
	var taken atomic.Int64
	m.measure(0, func() {
		var consuming sync.WaitGroup
		for range consumers {
			consuming.Go(func() {
				n := 0
				for {
					key, shutdown := q.Get()
					if shutdown {
						taken.Add(int64(n))
						return
					}
					q.Done(key)
					n++
				}
			})
		}
		together(producers, func(p int) {
			at := p * 12_345
			for range adds {
				at = (at + 7_919) % len(keys)
				q.Add(keys[at])
			}
		})
		q.ShutDown()
		consuming.Wait()
	})
	m.sample.Operations = producers*adds + int(taken.Load())
}

// cycle has one key added, taken and done, with nobody else about.
func cycle(m *meter) {
	const n = 3_000_000
	key := keys(1)[0]
	q := workqueue.NewTyped[string]()
	m.measure(n, func() {
		for range n {
			q.Add(key)
			key, _ := q.Get()
			q.Done(key)
		}
	})
}

// fresh has 100 keys added, taken and done, on a new queue each time.
func fresh(m *meter) {
	const queues = 10_000
	keys := keys(100)
	m.measure(queues*len(keys), func() {
		for range queues {
			q := workqueue.NewTyped[string]()
			for _, key := range keys {
				q.Add(key)
			}
			for range keys {
				key, _ := q.Get()
				q.Done(key)
			}
			q.ShutDown()
		}
	})
}

// addAfter delays 1 M keys by 0 to 1 s. Either that alone is measured, or all of it, until the last one is done.
func addAfter(m *meter, toTheEnd bool) {
	const n = 1_000_000
	keys, delays := keys(n), delays(n)
	q := workqueue.NewTypedDelayingQueue[string]()
	add := func() {
		for i, key := range keys {
			q.AddAfter(key, delays[i])
		}
	}
	if !toTheEnd {
		m.measure(n, add)
		return
	}
	m.measure(n, func() {
		add()
		for range n {
			key, _ := q.Get()
			q.Done(key)
		}
	})
	q.ShutDown()
}

// rateLimited adds 1 M keys after the delay of the item limiter, 5 ms each. Either that alone is measured, or all of it, until
// the last one is forgotten and done.
func rateLimited(m *meter, toTheEnd bool) {
	const n = 1_000_000
	keys := keys(n)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	q := workqueue.NewTypedRateLimitingQueue(limiter)
	m.measure(n, func() {
		for _, key := range keys {
			q.AddRateLimited(key)
		}
		if !toTheEnd {
			return
		}
		for range n {
			key, _ := q.Get()
			q.Forget(key)
			q.Done(key)
		}
	})
	q.ShutDown()
}

// itemLimiter has 1 k items fail and be forgotten.
func itemLimiter(m *meter) {
	const n = 5_000_000
	keys := keys(1000)
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	m.measure(n, func() {
		for i := range n {
			key := keys[i%len(keys)]
			limiter.When(key)
			limiter.Forget(key)
		}
	})
}

// footprint adds 10 M keys: the memory that takes beside the keys themselves. Or what of it is left when all are done.
func footprint(m *meter, toTheEnd bool) {
	const n = 10_000_000
	keys := keys(n)
	q := workqueue.NewTyped[string]()
	m.measure(n, func() {
		for _, key := range keys {
			q.Add(key)
		}
		if toTheEnd {
			for range n {
				key, _ := q.Get()
				q.Done(key)
			}
		}
	})
	if toTheEnd {
		debug.FreeOSMemory()
		m.sample.PeakBytes = float64(status("VmRSS:")) - m.base
	}
	runtime.KeepAlive(keys)
	q.Add(keys[0])
}

// keys are namespaced names of 30 bytes.
func keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%04d/object-%08d", i%1000, i)
	}
	return keys
}

// delays are uniform in 0 to 1 s, always the same.
func delays(n int) []time.Duration {
	random := rand.New(rand.NewSource(1))
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = time.Duration(random.Int63n(int64(time.Second)))
	}
	return delays
}

func together(n int, work func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { work(i) })
	}
	all.Wait()
}

type meter struct {
	sample sample
	base   float64
}

// measure runs work, which does so many operations, on a heap that has just been collected.
func (m *meter) measure(ops int, work func()) {
	debug.FreeOSMemory()
	// From here on the peak is this work's.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		fmt.Fprintln(os.Stderr, "the peak includes the preparation:", err)
	}
	m.base = float64(status("VmRSS:"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	work()
	m.sample.WallNs = float64(time.Since(start))
	m.sample.CPUNs = float64(cpuTime() - cpu)
	runtime.ReadMemStats(&after)
	m.sample.Operations = ops
	m.sample.Allocations = float64(after.Mallocs - before.Mallocs)
	m.sample.PeakBytes = float64(status("VmHWM:")) - m.base
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// status is a line of /proc/self/status, in bytes.
func status(field string) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), field)
	rest, _, _ = strings.Cut(rest, "kB")
	kilobytes, err := strconv.Atoi(strings.TrimSpace(rest))
	if err != nil {
		return 0
	}
	return kilobytes * 1024
}

package main

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"pintle.dev/bench/internal/meter"
)

// held is the number of keys that the other goroutine holds and finishes one by one.
const held = 100_000

// due measures only another goroutine's calls. In client-go, delays end in a separate goroutine and not in the timed calls.
func due(how meter.Setting) meter.Sample {
	n := how.Size(1_000_000)
	keys := meter.Names(n + held)
	q := newDelayingQueue(how)
	hold(q, keys[n:])
	// Delays cannot be held back here, so all of them end at the same time after the adds.
	at := time.Now().Add(3 * time.Second)
	for _, key := range keys[:n] {
		q.AddAfter(key, time.Until(at))
	}
	time.Sleep(time.Until(at))
	return whileHeld(q, keys[n:], func() meter.Tally {
		takeAll(q, n)
		return meter.Keys(n)
	})
}

func grow(how meter.Setting) meter.Sample {
	n := how.Size(10_000_000)
	keys := meter.Names(n + held)
	q := newQueue(how)
	hold(q, keys[n:])
	debug.FreeOSMemory()
	before := meter.Resident()
	sample := whileHeld(q, keys[n:], func() meter.Tally {
		for _, key := range keys[:n] {
			q.Add(key)
		}
		takeAll(q, n)
		return meter.Keys(n)
	})
	debug.FreeOSMemory()
	sample.Figures["bytes left when it is empty"] = meter.Resident() - before
	runtime.KeepAlive(keys)
	runtime.KeepAlive(q)
	return sample
}

func hold(q workqueue.TypedInterface[string], keys []string) {
	for _, key := range keys {
		q.Add(key)
		q.Get()
	}
}

func takeAll(q workqueue.TypedInterface[string], n int) {
	for range n {
		key, _ := q.Get()
		q.Done(key)
	}
}

// whileHeld measures work while another goroutine repeatedly finishes a key and sleeps.
func whileHeld(q workqueue.TypedInterface[string], holds []string, work func() meter.Tally) meter.Sample {
	var over atomic.Bool
	longest := make(chan time.Duration)
	go func() {
		var most time.Duration
		for _, key := range holds {
			if over.Load() {
				break
			}
			start := time.Now()
			q.Done(key)
			most = max(most, time.Since(start))
			time.Sleep(50 * time.Microsecond)
		}
		longest <- most
	}()
	sample := meter.Measure(work)
	over.Store(true)
	sample.Figures["us, longest done of another thread"] = float64(<-longest) / 1e3
	return sample
}

package main

import (
	"sync/atomic"
	"time"

	"pintle.dev/bench/internal/meter"
)

func busy(how meter.Setting, fan int) meter.Sample {
	const workers, pause, computes = 8, time.Millisecond, 5 * time.Millisecond
	rounds := how.Size(200)
	keys := meter.Names(rounds * (fan + 1))
	added := make([]atomic.Int64, len(keys))
	watches := meter.Stopwatches(workers)
	q := newQueue(how)
	var done atomic.Int64
	begin := time.Now()
	gets := meter.Begin(workers, func(i int) int {
		return timedDrain(q, func(key string) {
			n := number(key)
			if n%(fan+1) > 0 {
				watches[i].Since(begin.Add(time.Duration(added[n].Load())))
				q.Done(key)
				done.Add(1)
				return
			}
			for next := n + 1; next <= n+fan; next++ {
				added[next].Store(int64(time.Since(begin)))
				q.Add(keys[next])
			}
			for end := time.Now().Add(computes); time.Now().Before(end); {
			}
			q.Done(key)
			done.Add(1)
		})
	})
	sample := meter.Measure(func() meter.Tally {
		for r := range rounds {
			q.Add(keys[r*(fan+1)])
			for done.Load() < int64((r+1)*(fan+1)) {
				time.Sleep(pause)
			}
		}
		q.ShutDown()
		n := gets()
		return meter.Tally{Operations: n, Adds: n, Gets: n}
	})
	micros := meter.Micros(watches, 0.5, 0.99)
	sample.Figures["us, p50 of hand-out while one worker computes"] = micros[0]
	sample.Figures["us, p99 of hand-out while one worker computes"] = micros[1]
	return sample
}

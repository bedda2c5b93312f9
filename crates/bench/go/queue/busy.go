package main

import (
	"sync/atomic"
	"time"

	"pintle.dev/bench/internal/meter"
)

func busy(how meter.Setting, fan int) meter.Sample {
	const workers, round, computes = 8, 10 * time.Millisecond, 5 * time.Millisecond
	rounds := how.Size(200)
	keys := meter.Names(rounds * (fan + 1))
	added := make([]atomic.Int64, len(keys))
	watches := meter.Stopwatches(workers)
	q := newQueue(how)
	begin := time.Now()
	gets := meter.Begin(workers, func(i int) int {
		return timedDrain(q, func(key string) {
			n := number(key)
			if n%(fan+1) > 0 {
				watches[i].Since(begin.Add(time.Duration(added[n].Load())))
				q.Done(key)
				return
			}
			for next := n + 1; next <= n+fan; next++ {
				added[next].Store(int64(time.Since(begin)))
				q.Add(keys[next])
			}
			for end := time.Now().Add(computes); time.Now().Before(end); {
			}
			q.Done(key)
		})
	})
	sample := meter.Measure(func() meter.Tally {
		first := time.Now().Add(round)
		for r := range rounds {
			time.Sleep(time.Until(first.Add(round * time.Duration(r))))
			q.Add(keys[r*(fan+1)])
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

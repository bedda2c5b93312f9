package main

import (
	"math/rand/v2"
	"time"

	"pintle.dev/bench/internal/meter"
)

func addThenDrain(how meter.Setting, workers int) meter.Sample {
	keys := meter.Names(how.Size(1_000_000))
	q := newQueue(how)
	var adding time.Duration
	sample := meter.Measure(func() meter.Tally {
		start := time.Now()
		for _, key := range keys {
			q.Add(key)
		}
		adding = time.Since(start)
		q.ShutDown()
		gets := meter.Together(workers, func(int) int { return drain(q) })
		return meter.Tally{Operations: len(keys), Adds: len(keys), Gets: gets}
	})
	n := float64(len(keys))
	sample.Figures["adding, ns/key"] = float64(adding) / n
	sample.Figures["draining, ns/key"] = (sample.WallNs - float64(adding)) / n
	return sample
}

func through(how meter.Setting, workers int) meter.Sample {
	keys := meter.Names(how.Size(1_000_000))
	q := newQueue(how)
	gets := meter.Begin(workers, func(int) int { return drain(q) })
	return meter.Measure(func() meter.Tally {
		adds := meter.Together(1, func(int) int {
			for _, key := range keys {
				q.Add(key)
			}
			return len(keys)
		})
		q.ShutDown()
		return meter.Tally{Operations: len(keys), Adds: adds, Gets: gets()}
	})
}

func hot(how meter.Setting) meter.Sample {
	keys, each := meter.Names(how.Size(100_000)), how.Size(1_000_000)
	q := newQueue(how)
	sample := meter.Measure(func() meter.Tally {
		gets := meter.Begin(8, func(int) int { return drain(q) })
		adds := meter.Together(8, func(i int) int {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range each {
				q.Add(keys[random.IntN(len(keys))])
			}
			return each
		})
		q.ShutDown()
		return meter.Calls(adds, gets())
	})
	sample.Figures["adds/s"] = float64(sample.Adds) * 1e9 / sample.WallNs
	return sample
}

func cycle(how meter.Setting) meter.Sample {
	keys := meter.Names(how.Size(1_000_000))
	return again(how, keys, len(keys))
}

func same(how meter.Setting) meter.Sample { return again(how, meter.Names(1), how.Size(3_000_000)) }

func again(how meter.Setting, keys []string, times int) meter.Sample {
	q := newQueue(how)
	round := func() meter.Tally {
		for done := 0; done < times; done += len(keys) {
			for _, key := range keys {
				q.Add(key)
				key, _ := q.Get()
				q.Done(key)
			}
		}
		return meter.Keys(times)
	}
	round()
	return meter.Measure(round)
}

func fresh(how meter.Setting) meter.Sample {
	queues, keys := how.Size(10_000), meter.Names(100)
	return meter.Measure(func() meter.Tally {
		for range queues {
			q := newQueue(how)
			for _, key := range keys {
				q.Add(key)
			}
			for range keys {
				key, _ := q.Get()
				q.Done(key)
			}
			q.ShutDown()
		}
		return meter.Keys(queues * len(keys))
	})
}

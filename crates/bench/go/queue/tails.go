package main

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"pintle.dev/bench/internal/meter"
)

func storm(how meter.Setting) meter.Sample {
	const crew = 16
	each := how.Size(100_000)
	keys := meter.Names(each)
	added, done := meter.Stopwatches(crew), meter.Stopwatches(crew)
	q := newQueue(how)
	sample := meter.Measure(func() meter.Tally {
		gets := meter.Begin(crew, func(i int) int {
			return timedDrain(q, func(key string) {
				start := time.Now()
				q.Done(key)
				done[i].Since(start)
			})
		})
		adds := meter.Together(crew, func(i int) int {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range each {
				key := keys[random.IntN(len(keys))]
				start := time.Now()
				q.Add(key)
				added[i].Since(start)
			}
			return each
		})
		q.ShutDown()
		return meter.Calls(adds, gets())
	})
	tell(sample, added, "add")
	tell(sample, done, "done")
	return sample
}

func tell(sample meter.Sample, watches []meter.Stopwatch, call string) {
	micros := meter.Micros(watches, 0.5, 0.999)
	sample.Figures["us, p50 of "+call] = micros[0]
	sample.Figures["us, p99.9 of "+call] = micros[1]
}

// counts measures reads of the length, which is client-go's only count.
func counts(how meter.Setting) meter.Sample {
	const each = 1000
	keys := meter.Names(2 * each)
	watches := meter.Stopwatches(1)
	q := newQueue(how)
	var stop atomic.Bool
	sample := meter.Measure(func() meter.Tally {
		turns := meter.Begin(2, func(hog int) int {
			for turn := 0; ; turn++ {
				if stop.Load() {
					return turn
				}
				q.Add(keys[hog*each+turn%each])
				key, _ := q.Get()
				q.Done(key)
			}
		})
		end := time.Now().Add(time.Duration(how.Size(2000)) * time.Millisecond)
		for time.Now().Before(end) {
			time.Sleep(500 * time.Microsecond)
			start := time.Now()
			q.Len()
			watches[0].Since(start)
		}
		stop.Store(true)
		q.ShutDown()
		return meter.Keys(turns())
	})
	micros := meter.Micros(watches, 0.5, 0.99)
	sample.Figures["us, p50 of counts()"] = micros[0]
	sample.Figures["us, p99 of counts()"] = micros[1]
	return sample
}

func handOff(how meter.Setting, keysPerSecond int) meter.Sample {
	const crew, tick = 16, 5 * time.Millisecond
	share := keysPerSecond * int(tick.Milliseconds()) / 1000 / crew
	ticks := how.Size(400)
	keys := meter.Names(crew * ticks * share)
	added := make([]atomic.Int64, len(keys))
	watches := meter.Stopwatches(crew)
	q := newQueue(how)
	begin := time.Now()
	gets := meter.Begin(crew, func(i int) int {
		return timedDrain(q, func(key string) {
			watches[i].Since(begin.Add(time.Duration(added[number(key)].Load())))
			q.Done(key)
		})
	})
	sample := meter.Measure(func() meter.Tally {
		now := time.Now()
		meter.Together(crew, func(i int) int {
			first := now.Add(tick * time.Duration(i) / crew)
			for t := range ticks {
				time.Sleep(time.Until(first.Add(tick * time.Duration(t))))
				for key := (i*ticks + t) * share; key < (i*ticks+t+1)*share; key++ {
					added[key].Store(int64(time.Since(begin)))
					q.Add(keys[key])
				}
			}
			return ticks * share
		})
		q.ShutDown()
		return meter.Tally{Operations: len(keys), Adds: len(keys), Gets: gets()}
	})
	micros := meter.Micros(watches, 0.5, 0.99)
	sample.Figures["us, p50 of hand-off"] = micros[0]
	sample.Figures["us, p99 of hand-off"] = micros[1]
	return sample
}

// number returns the number at the end of name.
func number(name string) int {
	n, err := strconv.Atoi(name[len(name)-8:])
	if err != nil {
		panic(err)
	}
	return n
}

// timedDrain takes and counts keys. Its callback calls Done.
func timedDrain(q workqueue.TypedInterface[string], each func(string)) int {
	for n := 0; ; n++ {
		key, shutdown := q.Get()
		if shutdown {
			return n
		}
		each(key)
	}
}

package main

import (
	"math/rand/v2"
	"time"

	"k8s.io/client-go/util/workqueue"

	"pintle.dev/bench/internal/meter"
)

func addAfter(how meter.Setting) meter.Sample {
	keys := meter.Names(how.Size(1_000_000))
	delays := make([]time.Duration, len(keys))
	random := rand.New(rand.NewPCG(1, 1))
	for i := range delays {
		delays[i] = time.Duration(random.Int64N(int64(time.Second)))
	}
	q := newDelayingQueue(how)
	return untilDone(q, len(keys), len(keys), func() {
		for i, key := range keys {
			q.AddAfter(key, delays[i])
		}
	})
}

func rateLimitedByItem(how meter.Setting) meter.Sample {
	n := how.Size(1_000_000)
	return rateLimited(how, n, n, newItemLimiter())
}

func rateLimitedByDefault(how meter.Setting) meter.Sample {
	return rateLimited(how, how.Size(1_000_000), 100, workqueue.DefaultTypedControllerRateLimiter[string]())
}

func rateLimited(how meter.Setting, n, soon int, limiter workqueue.TypedRateLimiter[string]) meter.Sample {
	keys := meter.Names(n)
	config := workqueue.TypedRateLimitingQueueConfig[string]{Name: how.Name()}
	q := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)
	return untilDone(q, n, soon, func() {
		for _, key := range keys {
			q.AddRateLimited(key)
		}
	})
}

// untilDone measures adds, which adds n keys, until a waiting worker is done with the first `soon` keys.
func untilDone(q workqueue.TypedInterface[string], n, soon int, adds func()) meter.Sample {
	soonDone := make(chan struct{})
	gets := meter.Begin(1, func(int) int {
		for taken := 0; ; taken++ {
			if taken == soon {
				close(soonDone)
			}
			key, shutdown := q.Get()
			if shutdown {
				return taken
			}
			q.Done(key)
		}
	})
	var adding time.Duration
	sample := meter.Measure(func() meter.Tally {
		start := time.Now()
		adds()
		adding = time.Since(start)
		<-soonDone
		return meter.Keys(n)
	})
	q.ShutDown()
	sample.Gets = gets()
	sample.Figures["ns/call"] = float64(adding) / float64(n)
	return sample
}

func itemLimiter(how meter.Setting) meter.Sample {
	const rounds = 10
	keys := meter.Names(how.Size(100_000))
	limiter := newItemLimiter()
	return meter.Measure(func() meter.Tally {
		for range rounds {
			for _, key := range keys {
				limiter.When(key)
				limiter.Forget(key)
			}
		}
		return meter.Tally{Operations: rounds * len(keys)}
	})
}

func newItemLimiter() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
}

func newDelayingQueue(how meter.Setting) workqueue.TypedDelayingInterface[string] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Name: how.Name()})
}

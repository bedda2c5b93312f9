// Command priority runs the workload `priority` of the area `queue` on controller-runtime's queue once.
package main

import (
	"math/rand/v2"
	"sync/atomic"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"pintle.dev/bench/internal/meter"
)

var levels = [...]int{-100, -10, 0, 10, 100}

func main() {
	meter.Main(map[string]func(meter.Setting) meter.Sample{"priority": priority})
}

func priority(how meter.Setting) meter.Sample {
	keys, wanted := meter.Names(how.Size(100_000)), how.Size(200_000)
	q := priorityqueue.New[string](how.Name())
	random := rand.New(rand.NewPCG(0, 1))
	for _, key := range keys {
		q.AddWithOpts(anyLevel(random), key)
	}
	// Reading the length moves buffered adds into the queue.
	q.Len()
	var taken atomic.Int64
	return meter.Measure(func() meter.Tally {
		gets := meter.Together(1000, func(i int) int {
			random := rand.New(rand.NewPCG(uint64(i+1), 1))
			for n := 0; ; n++ {
				key, _, shutdown := q.GetWithPriority()
				if shutdown {
					return n
				}
				q.AddWithOpts(anyLevel(random), keys[random.IntN(len(keys))])
				q.AddWithOpts(anyLevel(random), key)
				q.Done(key)
				if taken.Add(1) == int64(wanted) {
					q.ShutDown()
				}
			}
		})
		return meter.Tally{Operations: gets, Adds: 2 * gets, Gets: gets}
	})
}

func anyLevel(random *rand.Rand) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: &levels[random.IntN(len(levels))]}
}

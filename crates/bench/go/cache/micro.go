package main

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/bench/internal/meter"
)

func makePods(n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:       fmt.Sprintf("namespace-%d", i%200),
				Name:            fmt.Sprintf("pod-name-%08d", i),
				ResourceVersion: fmt.Sprint(1_000_000 + i),
			},
			Spec: v1.PodSpec{NodeName: node(i * 7919)},
		}
	}
	return pods
}

func node(i int) string { return fmt.Sprintf("node-%d", i%1000) }

// copies returns new objects for the same pods, on the given nodes.
func copies(pods []*v1.Pod, node func(i int) string) []*v1.Pod {
	others := make([]*v1.Pod, len(pods))
	for i, pod := range pods {
		other := *pod
		other.Spec.NodeName = node(i)
		others[i] = &other
	}
	return others
}

func nothing(any, bool) error { return nil }

func realFIFO() cache.Queue {
	return cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{KnownObjects: cache.NewStore(cache.MetaNamespaceKeyFunc)})
}

func deltaFIFO() cache.Queue {
	return cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		KnownObjects:          cache.NewStore(cache.MetaNamespaceKeyFunc),
		EmitDeltaTypeReplaced: true,
	})
}

func addAndPop(how meter.Setting, queue cache.Queue) meter.Sample {
	pods := makePods(how.Size(1_000_000))
	return meter.Measure(func() meter.Tally {
		for _, pod := range pods {
			check(queue.Add(pod))
			must(queue.Pop(nothing))
		}
		return meter.Operations(len(pods))
	})
}

func addThenPop(how meter.Setting, queue cache.Queue) meter.Sample {
	pods := makePods(how.Size(1_000_000))
	var adding time.Duration
	sample := meter.Measure(func() meter.Tally {
		begin := time.Now()
		for _, pod := range pods {
			check(queue.Add(pod))
		}
		adding = time.Since(begin)
		for range pods {
			must(queue.Pop(nothing))
		}
		return meter.Operations(len(pods))
	})
	n := float64(len(pods))
	sample.Figures["adding, ns/object"] = float64(adding) / n
	sample.Figures["popping, ns/object"] = (sample.WallNs - float64(adding)) / n
	return sample
}

// through uses the queue as informers do. For an update, the store already contains all objects.
func through(how meter.Setting, isUpdate bool) meter.Sample {
	pods := makePods(how.Size(1_000_000))
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	queue := cache.NewRealFIFOWithOptions(cache.RealFIFOOptions{
		AtomicEvents: true, UnlockWhileProcessing: true, EmitDeltaTypeBookmark: true,
	})
	popped := 0
	one := func(deltas any, _ bool) error {
		for _, delta := range deltas.(cache.Deltas) {
			popped++
			check(store.Add(delta.Object))
		}
		return nil
	}
	batch := func(deltas []cache.Delta, _ bool) error {
		popped += len(deltas)
		changes := make([]cache.Transaction, 0, len(deltas))
		for _, delta := range deltas {
			kind := cache.TransactionTypeAdd
			if _, exists, _ := store.Get(delta.Object); exists {
				kind = cache.TransactionTypeUpdate
			}
			changes = append(changes, cache.Transaction{Type: kind, Object: delta.Object})
		}
		if err := store.(cache.TransactionStore).Transaction(changes...); err != nil {
			return err
		}
		return nil
	}
	pass := func(add func(any) error) {
		for _, pod := range pods {
			check(add(pod))
		}
		for popped = 0; popped < len(pods); {
			check(queue.PopBatch(batch, one))
		}
	}
	add := queue.Add
	if isUpdate {
		pass(queue.Add)
		add = queue.Update
	}
	return meter.Measure(func() meter.Tally {
		pass(add)
		return meter.Operations(len(pods))
	})
}

type indexer struct {
	cache.Indexer
	pods []*v1.Pod
	keys []string
	// order is random.
	order []int
}

// newIndexer returns an empty indexer with two indexes.
func newIndexer(how meter.Setting) indexer {
	pods := makePods(how.Size(100_000))
	keys := make([]string, len(pods))
	for i, pod := range pods {
		keys[i] = pod.Namespace + "/" + pod.Name
	}
	byNode := func(object any) ([]string, error) { return []string{object.(*v1.Pod).Spec.NodeName}, nil }
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "node": byNode,
	})
	return indexer{store, pods, keys, rand.New(rand.NewPCG(1, 2)).Perm(len(pods))}
}

func fullIndexer(how meter.Setting) indexer {
	store := newIndexer(how)
	store.addAll()
	return store
}

func (store indexer) addAll() {
	for _, pod := range store.pods {
		check(store.Add(pod))
	}
}

func storeAdd(how meter.Setting) meter.Sample {
	store := newIndexer(how)
	return meter.Measure(func() meter.Tally {
		store.addAll()
		return meter.Operations(len(store.pods))
	})
}

func storeGet(how meter.Setting, look func(pod any) bool) meter.Sample {
	store := fullIndexer(how)
	return meter.Measure(func() meter.Tally {
		for range 10 {
			for _, i := range store.order {
				if pod, exists, _ := store.GetByKey(store.keys[i]); !exists || !look(pod) {
					panic("a pod is missing")
				}
			}
		}
		return meter.Operations(10 * len(store.order))
	})
}

func isOnNode(pod any) bool { return pod.(*v1.Pod).Spec.NodeName != "" }

func storeByIndex(how meter.Setting) meter.Sample {
	store := fullIndexer(how)
	nodes := make([]string, 1000)
	for i := range nodes {
		nodes[i] = node(i)
	}
	found := 0
	sample := meter.Measure(func() meter.Tally {
		for range 20 {
			for _, node := range nodes {
				found += len(must(store.ByIndex("node", node)))
			}
		}
		return meter.Operations(20 * len(nodes))
	})
	if found != 20*len(store.pods) {
		panic("some pods are missing")
	}
	return sample
}

func storeList(how meter.Setting) meter.Sample {
	store := fullIndexer(how)
	return meter.Measure(func() meter.Tally {
		for range 20 {
			if len(store.List()) != len(store.pods) {
				panic("some pods are missing")
			}
		}
		return meter.Operations(20)
	})
}

func storeUpdate(how meter.Setting, move bool) meter.Sample {
	store := fullIndexer(how)
	others := copies(store.pods, func(i int) string {
		if move {
			return node(i + 501)
		}
		return store.pods[i].Spec.NodeName
	})
	return meter.Measure(func() meter.Tally {
		for _, i := range store.order {
			check(store.Update(others[i]))
		}
		return meter.Operations(len(others))
	})
}

func twoReadersOneWriter(how meter.Setting) meter.Sample {
	store := fullIndexer(how)
	moved := copies(store.pods, func(i int) string { return node(i + 501) })
	sets := [][]*v1.Pod{moved, copies(store.pods, func(i int) string { return store.pods[i].Spec.NodeName })}
	var stop atomic.Bool
	var reads, writes int
	sample := meter.Measure(func() meter.Tally {
		reading := meter.Begin(2, func(reader int) (n int) {
			random := rand.New(rand.NewPCG(uint64(reader), 9))
			for ; !stop.Load(); n += 64 {
				for range 64 {
					store.GetByKey(store.keys[random.IntN(len(store.keys))])
				}
			}
			return n
		})
		writing := meter.Begin(1, func(int) (n int) {
			for round := 0; ; round++ {
				for _, i := range store.order {
					check(store.Update(sets[round%2][i]))
					n++
					if n%64 == 0 && stop.Load() {
						return n
					}
				}
			}
		})
		time.Sleep(time.Duration(how.Size(3000)) * time.Millisecond)
		stop.Store(true)
		reads, writes = reading(), writing()
		return meter.Operations(reads + writes)
	})
	seconds := sample.WallNs / 1e9
	sample.Figures["reads/s"] = float64(reads) / seconds
	sample.Figures["writes/s"] = float64(writes) / seconds
	return sample
}

// Command election runs one workload of the area `election` on client-go once and prints one
// line of JSON. The source of the Rust binary `election` in this crate describes the workloads.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"pintle.dev/bench/internal/meter"
)

func main() {
	// client-go logs a line for each lost race and each dead leader.
	flags := flag.NewFlagSet("klog", flag.ExitOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			log.Fatal(err)
		}
	}
	klog.SetOutput(io.Discard)
	meter.Main(map[string]func(meter.Setting) meter.Sample{
		"release":  release,
		"crash":    crash,
		"standbys": standbys,
		"many":     many,
	})
}

func of(how meter.Setting, full, quick int) int {
	if how.Quick {
		return quick
	}
	return full
}

func release(how meter.Setting) meter.Sample {
	sample, seconds := vacancies(how, "release", of(how, 10, 2), of(how, 10, 2), func(c *contender) { c.stop() })
	at := func(percent int) float64 { return seconds[(len(seconds)*percent+99)/100-1] * 1e3 }
	sample.Figures["ms, p50 of the hand-over"] = at(50)
	sample.Figures["ms, p99 of the hand-over"] = at(99)
	return sample
}

func crash(how meter.Setting) meter.Sample {
	sample, seconds := vacancies(how, "crash", of(how, 12, 2), of(how, 2, 1), func(c *contender) {
		c.dead.Store(true)
		c.stop()
	})
	sum, longest := 0.0, 0.0
	for _, took := range seconds {
		sum, longest = sum+took, max(longest, took)
	}
	sample.Figures["s, mean until the next leads"] = sum / float64(len(seconds))
	sample.Figures["s, longest"] = longest
	return sample
}

// vacancies returns the sorted times without a leader, in seconds, after end has ended the leader.
// Several leases run concurrently, each with two standbys, and each leader is ended several times.
func vacancies(how meter.Setting, work string, leases, times int, end func(*contender)) (meter.Sample, []float64) {
	var seconds []float64
	sample := meter.Measure(func() meter.Tally {
		all := make([][]float64, leases)
		var done sync.WaitGroup
		for index := range leases {
			done.Go(func() { all[index] = vacanciesOf(how, ownName(fmt.Sprintf("%s-%d", work, index)), index, times, end) })
		}
		done.Wait()
		seconds = slices.Concat(all...)
		return meter.Operations(len(seconds))
	})
	sort.Float64s(seconds)
	return sample, seconds
}

func vacanciesOf(how meter.Setting, lease string, index, times int, end func(*contender)) (seconds []float64) {
	starts := make(chan start, 16)
	contenders := map[int]*contender{}
	for number := range 3 {
		contenders[number] = contend(how, lease, number, starts)
	}
	leader := next(starts).number
	for round := range times {
		// Vary the time since the last renewal, between rounds and between leases.
		time.Sleep(time.Duration(3000+(round*337+index*189)%2000) * time.Millisecond)
		ended := time.Now()
		end(contenders[leader])
		delete(contenders, leader)
		began := next(starts)
		seconds = append(seconds, began.at.Sub(ended).Seconds())
		leader = began.number
		contenders[3+round] = contend(how, lease, 3+round, starts)
	}
	return seconds
}

func standbys(how meter.Setting) meter.Sample {
	span := time.Duration(of(how, 30, 5)) * time.Second
	lease := ownName("standbys")
	starts := make(chan start, 101)
	var contenders []*contender
	for number := range 101 {
		contenders = append(contenders, contend(how, lease, number, starts))
	}
	leader := next(starts).number
	time.Sleep(5 * time.Second)
	asked := func() (sum int64) {
		for number, contender := range contenders {
			if number != leader {
				sum += contender.requests.Load()
			}
		}
		return sum
	}
	before := asked()
	sample := meter.Measure(func() meter.Tally {
		time.Sleep(span)
		return meter.Operations(100)
	})
	sample.Figures["requests a second"] = float64(asked()-before) / span.Seconds()
	return sample
}

// many measures one process that holds a hundred leases, with one client and one elector per lease.
func many(how meter.Setting) meter.Sample {
	const leases = 100
	span := time.Duration(of(how, 20, 5)) * time.Second
	tasks, open := runtime.NumGoroutine(), meter.Sockets()
	starts := make(chan start, leases)
	all := &contender{}
	client := all.client(how)
	ctx, cancel := context.WithCancel(context.Background())
	lease := ownName("many")
	var done sync.WaitGroup
	for number := range leases {
		done.Go(func() { elect(ctx, client, fmt.Sprintf("%s-%d", lease, number), lease, number, starts) })
	}
	for range leases {
		next(starts)
	}
	time.Sleep(3 * time.Second)
	before := all.requests.Load()
	sample := meter.Measure(func() meter.Tally {
		time.Sleep(span)
		return meter.Operations(leases)
	})
	renewals := leases * span.Seconds() / 2
	sample.Figures["requests a renewal"] = float64(all.requests.Load()-before) / renewals
	sample.Figures["CPU us a renewal"] = sample.CPUNs / 1e3 / renewals
	// Each request in flight has goroutines, so the minimum is the number of permanent goroutines.
	quietest := math.MaxInt
	for range 100 {
		time.Sleep(7 * time.Millisecond)
		quietest = min(quietest, runtime.NumGoroutine()-tasks)
	}
	sample.Figures["tasks without those of connections"] = float64(quietest)
	sample.Figures["connections"] = float64(meter.Sockets() - open)
	cancel()
	done.Wait()
	return sample
}

// ownName returns a lease name that no other process uses.
func ownName(of string) string { return fmt.Sprintf("%s-client-go-%d", of, os.Getpid()) }

type start struct {
	number int
	at     time.Time
}

// contender has its own client, like a separate process.
type contender struct {
	stop     context.CancelFunc
	requests atomic.Int64
	// dead makes all requests fail, as if the process had ended.
	dead atomic.Bool
}

func contend(how meter.Setting, lease string, number int, starts chan<- start) *contender {
	ctx, cancel := context.WithCancel(context.Background())
	c := &contender{stop: cancel}
	go elect(ctx, c.client(how), lease, fmt.Sprintf("%s-%d", lease, number), number, starts)
	return c
}

func elect(ctx context.Context, client *kubernetes.Clientset, lease, identity string, number int, starts chan<- start) {
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: lease, Namespace: "default"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		ReleaseOnCancel: true,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				starts <- start{number, time.Now()}
				<-ctx.Done()
			},
			OnStoppedLeading: func() {},
		},
	})
}

func (c *contender) client(how meter.Setting) *kubernetes.Clientset {
	config, err := clientcmd.BuildConfigFromFlags("", how.Server)
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{c, next} })
	return kubernetes.NewForConfigOrDie(rest.AddUserAgent(config, "leader-election"))
}

type counted struct {
	of   *contender
	next http.RoundTripper
}

func (c counted) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.of.dead.Load() {
		return nil, fmt.Errorf("it is dead")
	}
	c.of.requests.Add(1)
	return c.next.RoundTrip(request)
}

func next(starts <-chan start) start {
	select {
	case began := <-starts:
		return began
	case <-time.After(time.Minute):
		log.Fatal("no leader within a minute")
		return start{}
	}
}

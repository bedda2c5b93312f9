// Command rest runs one workload of the area `rest` on client-go once and prints one line
// of JSON. The source of the Rust binary `rest` in this crate describes the workloads.
package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/bench/internal/meter"
)

func main() {
	type setting = meter.Setting
	type sample = meter.Sample
	meter.Main(map[string]func(setting) sample{
		"get-1":        func(how setting) sample { return get(how, 1, plain) },
		"get-16":       func(how setting) sample { return get(how, 16, plain) },
		"get-16-tls":   func(how setting) sample { return get(how, 16, tls) },
		"get-64":       func(how setting) sample { return get(how, 64, plain) },
		"get-64-tls":   func(how setting) sample { return get(how, 64, tls) },
		"get-64-http2": func(how setting) sample { return get(how, 64, http2) },
		"watches":      watches,
		"list":         list,
	})
}

// protocol is the protocol between client and server.
type protocol int

const (
	plain protocol = iota
	tls
	http2
)

func newClient(how meter.Setting, over protocol) rest.Interface {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: "tls"}
	if over == plain {
		overrides.CurrentContext = "plain"
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: how.Server}
	config := must(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig())
	if over == tls {
		config.NextProtos = []string{"http/1.1"}
	}
	return clientFor(config)
}

func clientFor(config *rest.Config) rest.Interface {
	config.APIPath = "/api"
	config.QPS = -1
	config.ContentConfig = rest.ContentConfig{
		GroupVersion:         &v1.SchemeGroupVersion,
		NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		ContentType:          "application/json",
	}
	return must(rest.RESTClientFor(config))
}

func span(how meter.Setting, full time.Duration) time.Duration {
	if how.Quick {
		return full / 4
	}
	return full
}

func get(how meter.Setting, atOnce int, over protocol) meter.Sample {
	client := newClient(how, over)
	var isMeasured, isOver atomic.Bool
	var asked atomic.Int64
	var all sync.WaitGroup
	watches := meter.Stopwatches(atOnce)
	for i := range atOnce {
		all.Go(func() {
			for !isOver.Load() {
				begin := time.Now()
				small := &v1.ConfigMap{}
				request := client.Get().Namespace("default").Resource("configmaps").Name("small")
				check(request.Do(context.Background()).Into(small))
				if small.Data["key"] != "value" {
					panic("another object")
				}
				if isMeasured.Load() {
					asked.Add(1)
					watches[i].Since(begin)
				}
			}
		})
	}
	time.Sleep(span(how, time.Second))
	sample := meter.Measure(func() meter.Tally {
		isMeasured.Store(true)
		time.Sleep(span(how, 3*time.Second))
		return meter.Operations(int(asked.Load()))
	})
	isOver.Store(true)
	all.Wait()
	sample.Figures["us, p99"] = meter.Micros(watches, 0.99)[0]
	return sample
}

func watches(how meter.Setting) meter.Sample {
	const many = 1000
	client := newClient(how, http2)
	bytes, connections := meter.Resident(), meter.Sockets()
	var opened, events atomic.Int64
	for range many {
		go func() {
			options := &metav1.ListOptions{Watch: true}
			request := client.Get().Namespace("default").Resource("configmaps")
			watched := must(request.VersionedParams(options, scheme.ParameterCodec).Watch(context.Background()))
			opened.Add(1)
			for event := range watched.ResultChan() {
				if small, ok := event.Object.(*v1.ConfigMap); !ok || event.Type != watch.Modified || small.Data["key"] != "value" {
					panic("another event")
				}
				events.Add(1)
			}
			panic("the server ended the watch")
		}()
	}
	for opened.Load() < many {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * time.Second)
	before := events.Load()
	sample := meter.Measure(func() meter.Tally {
		if how.Quick {
			time.Sleep(time.Second)
		} else {
			time.Sleep(10 * time.Second)
		}
		return meter.Operations(int(events.Load() - before))
	})
	sample.Figures["bytes resident a watch"] = (meter.Resident() - bytes) / many
	sample.Figures["connections"] = float64(meter.Sockets() - connections)
	return sample
}

func list(how meter.Setting) meter.Sample {
	client := clientFor(&rest.Config{Host: how.Server})
	read := func(limit int64) (read int) {
		pods := &v1.PodList{}
		request := client.Get().Resource("pods").VersionedParams(&metav1.ListOptions{Limit: limit}, scheme.ParameterCodec)
		check(request.Do(context.Background()).Into(pods))
		for i := range pods.Items {
			if pods.Items[i].Name != "" {
				read++
			}
		}
		return read
	}
	read(100)
	return meter.Measure(func() meter.Tally { return meter.Operations(read(0)) })
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

package main

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/bench/internal/meter"
)

// kept is the informer's transform. nil keeps all fields.
type kept cache.TransformFunc

var keepAll kept

func strip(object any) (any, error) {
	if pod, ok := object.(*v1.Pod); ok {
		pod.ManagedFields, pod.Annotations = nil, nil
	}
	return object, nil
}

// media is the content type of lists and watches.
var media = "application/json"

// inProtobuf makes the client and the load server use protobuf.
func inProtobuf(how meter.Setting) meter.Setting {
	media = "application/vnd.kubernetes.protobuf"
	feed(how.Server).ask("/control/protobuf")
	return how
}

func newInformer(how meter.Setting, kept kept, streaming bool) cache.SharedIndexInformer {
	check(os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(streaming)))
	client := must(rest.RESTClientFor(&rest.Config{
		Host:               how.Server,
		APIPath:            "/api",
		QPS:                -1,
		DisableCompression: true,
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &v1.SchemeGroupVersion,
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
			ContentType:          media,
			AcceptContentTypes:   media,
		},
	}))
	request := func(options *metav1.ListOptions) *rest.Request {
		return client.Get().Resource("pods").VersionedParams(options, scheme.ParameterCodec)
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			pods := &v1.PodList{}
			err := request(&options).Do(ctx).Into(pods)
			return pods, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			return request(&options).Watch(ctx)
		},
	}, &v1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if kept != nil {
		check(informer.SetTransform(cache.TransformFunc(kept)))
	}
	return informer
}

// counter is a handler that counts updates and notifies when it has received enough of them.
type counter struct {
	adds, updates atomic.Int64
	wanted        int64
	done          atomic.Pointer[time.Time]
	synced        func() bool
}

func count(informer cache.SharedIndexInformer, wanted int) *counter {
	c := &counter{wanted: int64(wanted)}
	c.synced = must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.adds.Add(1) },
		UpdateFunc: func(old, new any) {
			// A re-list also delivers unchanged objects.
			if old.(*v1.Pod).ResourceVersion == new.(*v1.Pod).ResourceVersion {
				return
			}
			if c.updates.Add(1) == c.wanted {
				now := time.Now()
				c.done.Store(&now)
			}
		},
	})).HasSynced
	return c
}

// until checks the condition every millisecond.
func until(is func() bool) {
	for !is() {
		time.Sleep(time.Millisecond)
	}
}

func (c *counter) wait() time.Time {
	until(func() bool { return c.done.Load() != nil })
	return *c.done.Load()
}

// start starts an informer, waits for its store and a handler, and returns how long the store took to be complete.
func start(informer cache.SharedIndexInformer, handler *counter) time.Duration {
	begin := time.Now()
	go informer.Run(make(chan struct{}))
	until(informer.HasSynced)
	synced := time.Since(begin)
	until(handler.synced)
	return synced
}

// settled returns an informer whose store is complete and no longer changes.
func settled(how meter.Setting, kept kept) cache.SharedIndexInformer {
	informer := newInformer(how, kept, false)
	handler := must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{}))
	start(informer, &counter{synced: handler.HasSynced})
	check(informer.RemoveEventHandler(handler))
	if !how.Quick {
		time.Sleep(4 * time.Second)
	}
	feed(how.Server).waitForWatch()
	return informer
}

func sync(how meter.Setting, kept kept, streaming bool) meter.Sample {
	pods := feed(how.Server).stats().Pods
	informer := newInformer(how, kept, streaming)
	handler := count(informer, -1)
	var synced, handled time.Duration
	sample := meter.Measure(func() meter.Tally {
		begin := time.Now()
		synced = start(informer, handler)
		handled = time.Since(begin)
		return meter.Operations(len(informer.GetStore().ListKeys()))
	})
	if sample.Operations != pods || handler.adds.Load() != int64(pods) {
		panic("some pods are missing")
	}
	sample.Figures["s until synced"] = synced.Seconds()
	sample.Figures["s until the handler has all"] = handled.Seconds()
	return sample
}

func held(how meter.Setting) meter.Sample {
	liveBefore, residentBefore := meter.Live(), meter.Resident()
	var informer cache.SharedIndexInformer
	sample := meter.Measure(func() meter.Tally {
		informer = settled(how, keepAll)
		return meter.Operations(len(informer.GetStore().ListKeys()))
	})
	sample.Figures["bytes resident, nothing reclaimed"] = meter.Resident() - residentBefore
	sample.Figures["bytes live"] = meter.Live() - liveBefore
	if !informer.HasSynced() { // keeps the informer alive
		panic("it was not shut down")
	}
	return sample
}

func subscribe(how meter.Setting) meter.Sample {
	informer := settled(how, strip)
	var call time.Duration
	sample := meter.Measure(func() meter.Tally {
		begin := time.Now()
		handler := count(informer, -1)
		call = time.Since(begin)
		until(handler.synced)
		return meter.Operations(int(handler.adds.Load()))
	})
	sample.Figures["ms, the call"] = float64(call) / 1e6
	return sample
}

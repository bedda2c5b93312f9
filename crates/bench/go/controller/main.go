// Command controller runs one workload of the area `controller` on controller-runtime once and prints
// one line of JSON. The source of the Rust binary `controller` in this crate describes the workloads.
package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"pintle.dev/bench/internal/meter"
)

// annotation contains the last run that wrote an object.
const annotation = "bench/run"

var start = time.Now()

func main() {
	meter.Main(map[string]func(meter.Setting) meter.Sample{
		"noop":  func(how meter.Setting) meter.Sample { return run(how, false) },
		"write": func(how meter.Setting) meter.Sample { return run(how, true) },
	})
}

func run(how meter.Setting, writes bool) meter.Sample {
	ctrl.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", how.Server)
	check(err)
	config.QPS = -1
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	check(err)
	maps := newReconciler(mgr.GetClient(), how.Size(how.Objects), writes)
	err = ctrl.NewControllerManagedBy(mgr).
		For(&v1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: how.Workers}).
		Complete(maps)
	check(err)
	go func() {
		check(mgr.Start(context.Background()))
		panic("the manager ended")
	}()
	<-maps.done
	sample := meter.Process()
	sample.Operations, sample.Adds, sample.Gets = len(maps.isSettled), len(maps.isSettled), int(maps.reconciliations.Load())
	sample.WallNs = float64(maps.end)
	sample.Figures["s until the first reconcile"] = maps.first.Seconds()
	return sample
}

type reconciler struct {
	client client.Client
	writes bool
	run    string

	once            sync.Once
	first, end      time.Duration
	reconciliations atomic.Int64
	isSettled       []atomic.Bool
	unsettled       atomic.Int64
	done            chan struct{}
}

func newReconciler(client client.Client, objects int, writes bool) *reconciler {
	r := &reconciler{
		client:    client,
		writes:    writes,
		run:       strconv.FormatInt(time.Now().UnixMicro(), 10),
		isSettled: make([]atomic.Bool, objects),
		done:      make(chan struct{}),
	}
	r.unsettled.Store(int64(objects))
	return r
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.once.Do(func() { r.first = time.Since(start) })
	index := r.index(request.Name)
	if index >= 0 {
		r.reconciliations.Add(1)
	}
	var configMap v1.ConfigMap
	if err := r.client.Get(ctx, request.NamespacedName, &configMap); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.writes && configMap.Annotations[annotation] != r.run {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotation, r.run)
		return ctrl.Result{}, r.client.Patch(ctx, &configMap, client.RawPatch(types.MergePatchType, patch))
	}
	if index >= 0 && !r.isSettled[index].Swap(true) && r.unsettled.Add(-1) == 0 {
		r.end = time.Since(start)
		close(r.done)
	}
	return ctrl.Result{}, nil
}

// index returns an object's number, or -1 if the object does not count.
func (r *reconciler) index(name string) int {
	digits, isCounted := strings.CutPrefix(name, "bench-")
	index, err := strconv.Atoi(digits)
	if !isCounted || err != nil || index < 0 || index >= len(r.isSettled) {
		return -1
	}
	return index
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

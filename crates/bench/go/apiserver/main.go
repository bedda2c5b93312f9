// Command apiserver loads an API server with client-go once and prints one line of JSON. The requests are small
// writes, reads, lists and watches over TLS, in JSON or protobuf. Both sides use this program with different servers.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/bench/internal/meter"
)

const workers = 16

func main() {
	meter.Main(map[string]func(meter.Setting) meter.Sample{
		"load":          func(how meter.Setting) meter.Sample { return load(how, "application/json") },
		"load-protobuf": func(how meter.Setting) meter.Sample { return load(how, "application/vnd.kubernetes.protobuf") },
	})
}

// load runs the same requests three times, each in a new namespace. The figures are from the first run, and the memory is measured last.
func load(how meter.Setting, media string) meter.Sample {
	config, err := clientcmd.BuildConfigFromFlags("", how.Server)
	must(err)
	config.QPS = -1
	config.ContentType = media
	client := kubernetes.NewForConfigOrDie(config)
	awaitReady(client)
	figures := map[string]float64{}
	sample := meter.Measure(func() meter.Tally {
		once(config, client, "load-0", how, figures)
		return meter.Operations(how.Size(5000))
	})
	figures["MB of the server after the load"] = how.ServerBytes() / 1e6
	for i := 1; i < 3; i++ {
		once(config, client, fmt.Sprint("load-", i), how, map[string]float64{})
	}
	figures["MB of the server after three of them"] = how.ServerBytes() / 1e6
	sample.Figures = figures
	return sample
}

func awaitReady(client *kubernetes.Clientset) {
	ready := func() error { return client.RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error() }
	for begun := time.Now(); ready() != nil; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			log.Fatal("no server after two minutes: ", ready())
		}
	}
}

func once(config *rest.Config, client *kubernetes.Clientset, namespace string, how meter.Setting, figures map[string]float64) {
	ctx := context.Background()
	n, watchers, changes := how.Size(5000), max(how.Size(100), 10), how.Size(500)
	named := metav1.ObjectMeta{Name: namespace}
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: named}, metav1.CreateOptions{})
	must(err)
	maps := client.CoreV1().ConfigMaps(namespace)
	figures["creates/s"] = float64(n) / each(n, workers, func(i int) {
		_, err := maps.Create(ctx, configMap(i, "value"), metav1.CreateOptions{})
		must(err)
	})
	figures["GETs/s"] = float64(4*n) / each(4*n, workers, func(i int) {
		_, err := maps.Get(ctx, name(i%n), metav1.GetOptions{})
		must(err)
	})
	const lists = 20
	figures["ms a LIST"] = 1e3 / lists * each(lists, 1, func(int) {
		list, err := maps.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		must(err)
		if len(list.Items) != n {
			log.Fatalf("a list of %d, of %d", len(list.Items), n)
		}
	})
	var watched sync.WaitGroup
	var ready sync.WaitGroup
	for range watchers {
		ready.Add(1)
		watched.Go(func() { watch(ctx, config, namespace, changes, ready.Done) })
	}
	ready.Wait()
	start := time.Now()
	each(changes, workers, func(i int) {
		_, err := maps.Update(ctx, configMap(i, "other"), metav1.UpdateOptions{})
		must(err)
	})
	watched.Wait()
	figures["watch events/s"] = float64(watchers*changes) / time.Since(start).Seconds()
	must(client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
}

// watch receives all changes, or fails. Each watch has its own client. client-go shares the connection between the clients.
func watch(ctx context.Context, config *rest.Config, namespace string, changes int, ready func()) {
	maps := kubernetes.NewForConfigOrDie(rest.CopyConfig(config)).CoreV1().ConfigMaps(namespace)
	list, err := maps.List(ctx, metav1.ListOptions{Limit: 1})
	must(err)
	watch, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(err)
	defer watch.Stop()
	ready()
	for heard := range changes {
		if _, goesOn := <-watch.ResultChan(); !goesOn {
			log.Fatalf("a watch ended after %d changes, of %d", heard, changes)
		}
	}
}

// each calls work with the numbers up to n, with limited concurrency, and returns the elapsed seconds.
func each(n, atOnce int, work func(int)) float64 {
	var next atomic.Int64
	start := time.Now()
	meter.Together(atOnce, func(int) int {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return 0
			}
			work(i)
		}
	})
	return time.Since(start).Seconds()
}

func configMap(i int, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Data: map[string]string{"key": value}}
}

func name(i int) string { return fmt.Sprint("c", i) }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

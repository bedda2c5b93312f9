// Command contender does the same as the Rust program `contender`, with client-go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	server := flag.String("server", "", "the kubeconfig")
	lease := flag.String("lease", "", "namespace/name")
	identity := flag.String("identity", "", "of this contender")
	file := flag.String("log", "", "where the deeds are written down")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *server)
	if err != nil {
		log.Fatal(err)
	}
	// As in resourcelock.NewFromKubeconfig.
	config.Timeout = 1250 * time.Millisecond
	namespace, name, _ := strings.Cut(*lease, "/")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: name, Namespace: namespace},
			Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
		},
		LeaseDuration: 4 * time.Second,
		RenewDeadline: 2500 * time.Millisecond,
		RetryPeriod:   time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { work(ctx, *file) },
			OnStoppedLeading: func() {},
		},
	})
}

func work(ctx context.Context, file string) {
	deeds, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer deeds.Close()
	fmt.Fprintln(deeds, "term")
	for ctx.Err() == nil {
		fmt.Fprintln(deeds, time.Now().UnixNano())
		time.Sleep(10 * time.Millisecond)
	}
}

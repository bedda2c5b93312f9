package meter

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Setting selects a workload's variant.
type Setting struct {
	// Metrics enables the queue's metrics.
	Metrics bool
	// Quick runs a fiftieth of the full size, as a smoke test.
	Quick bool
	// Server is the load server's URL, or an API server's kubeconfig.
	Server string
	// Processes are the API server's process ids, for workloads that measure its memory.
	Processes []string
	// Objects is the number of objects on the server.
	Objects int
	// Workers is the number of concurrent reconciliations.
	Workers int
}

// ServerBytes returns the API server's resident memory.
func (s Setting) ServerBytes() (sum float64) {
	for _, process := range s.Processes {
		sum += status(process, "VmRSS:")
	}
	return sum
}

// Size returns full, or the smaller size of a quick run.
func (s Setting) Size(full int) int {
	if s.Quick {
		return full / 50
	}
	return full
}

// Name returns the queue's name. A queue without a name reports no metrics.
func (s Setting) Name() string {
	if s.Metrics {
		return "bench"
	}
	return ""
}

// Main runs the workload from the command line and prints its sample.
func Main(works map[string]func(Setting) Sample) {
	usage := func() {
		fmt.Fprintf(os.Stderr, "usage: %s WORK [--metrics] [--server URL] [--processes ID,…] [--objects N] [--workers N] [--quick], one of:\n", os.Args[0])
		for work := range works {
			fmt.Fprintln(os.Stderr, "  "+work)
		}
		os.Exit(2)
	}
	if len(os.Args) < 2 || works[os.Args[1]] == nil {
		usage()
	}
	var how Setting
	for args := os.Args[2:]; len(args) > 0; args = args[1:] {
		switch {
		case args[0] == "--metrics":
			how.Metrics = true
		case args[0] == "--quick":
			how.Quick = true
		case args[0] == "--server" && len(args) > 1:
			args = args[1:]
			how.Server = args[0]
		case args[0] == "--processes" && len(args) > 1:
			args = args[1:]
			how.Processes = strings.Split(args[0], ",")
		case (args[0] == "--objects" || args[0] == "--workers") && len(args) > 1:
			number, err := strconv.Atoi(args[1])
			if err != nil {
				usage()
			}
			if args[0] == "--objects" {
				how.Objects = number
			} else {
				how.Workers = number
			}
			args = args[1:]
		default:
			usage()
		}
	}
	works[os.Args[1]](how).Print()
}

// Names returns distinct namespaced names of about 30 bytes.
func Names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("namespace-%d/pod-name-%08d", i%200, i)
	}
	return names
}

// Together runs work in n goroutines and returns the sum of their counts.
func Together(n int, work func(int) int) int { return Begin(n, work)() }

// Begin runs work in n goroutines. The returned function waits for them and returns the sum of their counts.
func Begin(n int, work func(int) int) func() int {
	var all sync.WaitGroup
	counts := make([]int, n)
	for i := range n {
		all.Go(func() { counts[i] = work(i) })
	}
	return func() int {
		all.Wait()
		sum := 0
		for _, count := range counts {
			sum += count
		}
		return sum
	}
}

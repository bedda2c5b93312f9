package meter

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// Setting is the variant in which a work is done.
type Setting struct {
	// Metrics: the queue tells them.
	Metrics bool
	// Quick: a fiftieth of the size, to see that all works.
	Quick bool
	// Server is where the load server listens, for works that are fed by it; or the kubeconfig of an API server.
	Server string
	// Processes are those of the API server, by their ids, where its cost is told, too.
	Processes []string
}

// ServerBytes is the memory of the API server that is resident now.
func (s Setting) ServerBytes() (sum float64) {
	for _, process := range s.Processes {
		sum += status(process, "VmRSS:")
	}
	return sum
}

// Size is full, or as much as is quick.
func (s Setting) Size(full int) int {
	if s.Quick {
		return full / 50
	}
	return full
}

// Name is that of the queue. One without a name tells no metrics.
func (s Setting) Name() string {
	if s.Metrics {
		return "bench"
	}
	return ""
}

// Main does the work that the command line names, and prints its sample.
func Main(works map[string]func(Setting) Sample) {
	usage := func() {
		fmt.Fprintf(os.Stderr, "usage: %s WORK [--metrics] [--server URL] [--processes ID,…] [--quick], one of:\n", os.Args[0])
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
		default:
			usage()
		}
	}
	works[os.Args[1]](how).Print()
}

// Names are namespaced and of about 30 bytes, each another one.
func Names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("namespace-%d/pod-name-%08d", i%200, i)
	}
	return names
}

// Together does work n times at once, and adds up what it counts.
func Together(n int, work func(int) int) int { return Begin(n, work)() }

// Begin does the same beside its caller; what it returns waits for the end.
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

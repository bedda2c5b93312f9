package meter

import (
	"slices"
	"time"
)

// Stopwatch collects durations. Each goroutine has its own.
type Stopwatch []time.Duration

// Stopwatches returns stopwatches with preallocated memory.
func Stopwatches(n int) []Stopwatch {
	watches := make([]Stopwatch, n)
	for i := range watches {
		watches[i] = make(Stopwatch, 0, 1<<16)
	}
	return watches
}

// Since records the time since start.
func (w *Stopwatch) Since(start time.Time) { *w = append(*w, time.Since(start)) }

// Micros returns quantiles of all durations in microseconds.
func Micros(watches []Stopwatch, qs ...float64) []float64 {
	all := slices.Concat(watches...)
	slices.Sort(all)
	micros := make([]float64, len(qs))
	for i, q := range qs {
		rank := max(int(float64(len(all))*q+0.9999), 1)
		micros[i] = float64(all[rank-1]) / 1e3
	}
	return micros
}

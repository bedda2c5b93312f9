package meter

import (
	"slices"
	"time"
)

// Stopwatch takes many short times. Each goroutine has its own.
type Stopwatch []time.Duration

// Stopwatches are so many, each with some room.
func Stopwatches(n int) []Stopwatch {
	watches := make([]Stopwatch, n)
	for i := range watches {
		watches[i] = make(Stopwatch, 0, 1<<16)
	}
	return watches
}

// Since notes how long ago that was.
func (w *Stopwatch) Since(start time.Time) { *w = append(*w, time.Since(start)) }

// Micros is the time in microseconds that the share q of all those taken does not exceed, for each q.
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

// Package meter measures the cost of one workload run, like the Rust side.
package meter

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Sample is the line that a program prints. Both sides print the same fields.
type Sample struct {
	Operations  int     `json:"operations"`
	Adds        int     `json:"adds"`
	Gets        int     `json:"gets"`
	WallNs      float64 `json:"wall_ns"`
	CPUNs       float64 `json:"cpu_ns"`
	Allocations float64 `json:"allocations"`
	// PeakBytes is the peak resident memory minus the resident memory at the start.
	PeakBytes float64 `json:"peak_bytes"`
	// Figures are the workload's other figures, by unit.
	Figures map[string]float64 `json:"figures"`
}

// Tally counts the operations in a measured run.
type Tally struct{ Operations, Adds, Gets int }

// Operations returns the counts for a workload without a queue.
func Operations(n int) Tally { return Tally{Operations: n} }

// Keys returns the counts for n keys that were added and taken once. An add and its get are one operation.
func Keys(n int) Tally { return Tally{n, n, n} }

// Calls returns counts in which each add is one operation, and each get with its Done is another.
func Calls(adds, gets int) Tally { return Tally{adds + gets, adds, gets} }

// Measure collects garbage, and then runs and measures work.
func Measure(work func() Tally) Sample {
	debug.FreeOSMemory()
	return MeasureOnly(work)
}

// MeasureOnly is Measure without the garbage collection.
func MeasureOnly(work func() Tally) Sample {
	// Reset the peak resident memory.
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		fmt.Fprintln(os.Stderr, "the peak includes the preparation:", err)
	}
	base := Resident()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()
	tally := work()
	wall := time.Since(start)
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	return Sample{
		Operations:  tally.Operations,
		Adds:        tally.Adds,
		Gets:        tally.Gets,
		WallNs:      float64(wall),
		CPUNs:       float64(cpu),
		Allocations: float64(after.Mallocs - before.Mallocs),
		PeakBytes:   Peak() - base,
		Figures:     map[string]float64{},
	}
}

// Process returns the cost of the process so far, with its peak memory. The caller sets the counts and the wall time.
func Process() Sample {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return Sample{CPUNs: float64(cpuTime()), Allocations: float64(now.Mallocs), PeakBytes: Peak(), Figures: map[string]float64{}}
}

// Resident returns the resident memory in bytes.
func Resident() float64 { return status("self", "VmRSS:") }

// Peak returns the peak resident memory since Measure began.
func Peak() float64 { return status("self", "VmHWM:") }

// Sockets returns the number of this process's open sockets.
func Sockets() (count int) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	for _, file := range files {
		if to, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			count++
		}
	}
	return count
}

// Live returns the size of the heap in use, after a garbage collection that returns memory to the system.
func Live() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return float64(now.HeapAlloc)
}

// Print prints the sample, or ends the program if printing fails.
func (s Sample) Print() {
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// status returns a value of /proc/ID/status in bytes, or 0 if the file cannot be read.
func status(process, field string) float64 {
	text, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), field)
	rest, _, _ = strings.Cut(rest, "kB")
	kilobytes, err := strconv.Atoi(strings.TrimSpace(rest))
	if err != nil {
		return 0
	}
	return float64(kilobytes) * 1024
}

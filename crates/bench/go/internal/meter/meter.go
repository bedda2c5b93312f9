// Package meter measures the cost of one run of a workload, as the Rust side does.
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
	// PeakBytes is the peak of resident memory minus the resident memory at the start.
	PeakBytes float64 `json:"peak_bytes"`
	// Figures are other figures of the workload, by unit.
	Figures map[string]float64 `json:"figures"`
}

// Tally counts the operations of one measured run.
type Tally struct{ Operations, Adds, Gets int }

// Operations counts operations of a workload without a queue.
func Operations(n int) Tally { return Tally{Operations: n} }

// Keys counts keys that were added and taken once each. An add and its get are one operation.
func Keys(n int) Tally { return Tally{n, n, n} }

// Calls counts each add as one operation, and each get with its Done as another.
func Calls(adds, gets int) Tally { return Tally{adds + gets, adds, gets} }

// Measure runs work and measures it, after a garbage collection.
func Measure(work func() Tally) Sample {
	debug.FreeOSMemory()
	return MeasureOnly(work)
}

// MeasureOnly is Measure without the garbage collection.
func MeasureOnly(work func() Tally) Sample {
	// Resets the peak of resident memory.
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

// Process returns the cost of the process up to now. Its memory is the peak of the process. The program sets the counts and the wall time.
func Process() Sample {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return Sample{CPUNs: float64(cpuTime()), Allocations: float64(now.Mallocs), PeakBytes: Peak(), Figures: map[string]float64{}}
}

// Resident returns the resident memory in bytes.
func Resident() float64 { return status("self", "VmRSS:") }

// Peak returns the peak of resident memory since Measure began.
func Peak() float64 { return status("self", "VmHWM:") }

// Sockets returns the number of open sockets of this process.
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

// Print prints the sample. The program ends after it.
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

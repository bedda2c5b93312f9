// Package meter tells what a run of a work costs, as the Rust half of the bench does.
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
	// PeakBytes is how much more memory was resident at the highest point than at the start.
	PeakBytes float64 `json:"peak_bytes"`
	// Figures is what else the work tells, by the unit that it stands under.
	Figures map[string]float64 `json:"figures"`
}

// Tally is what was done while it was measured.
type Tally struct{ Operations, Adds, Gets int }

// Operations that are none of a queue.
func Operations(n int) Tally { return Tally{Operations: n} }

// Keys were added and taken once each, and both together are an operation.
func Keys(n int) Tally { return Tally{n, n, n} }

// Calls are operations: each add, and each get with its done.
func Calls(adds, gets int) Tally { return Tally{adds + gets, adds, gets} }

// Measure runs work, and measures it alone, on a heap that has just been collected.
func Measure(work func() Tally) Sample {
	debug.FreeOSMemory()
	return MeasureOnly(work)
}

// MeasureOnly is Measure on the heap as it is.
func MeasureOnly(work func() Tally) Sample {
	// From here on the peak is this work's.
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

// Resident is the memory that is resident now, in bytes.
func Resident() float64 { return status("self", "VmRSS:") }

// Peak is the most memory that was resident since Measure began.
func Peak() float64 { return status("self", "VmHWM:") }

// Live is the heap that is in use, after all else has been collected and given back.
func Live() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return float64(now.HeapAlloc)
}

// Print prints the sample, which the program is over with.
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

// status is a line of a process's /proc/ID/status, in bytes; 0 where there is no such file.
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

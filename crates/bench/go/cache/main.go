// Command cache runs one workload of the area `cache` on client-go once and prints one line of JSON. The
// source of the Rust binaries `cache`, `cache_fifo` and `cache_micro` in this crate describes the workloads.
package main

import "pintle.dev/bench/internal/meter"

func main() {
	type setting = meter.Setting
	type sample = meter.Sample
	meter.Main(map[string]func(setting) sample{
		"sync":              func(how setting) sample { return sync(how, keepAll, false) },
		"sync-streaming":    func(how setting) sample { return sync(how, keepAll, true) },
		"sync-protobuf":     func(how setting) sample { return sync(inProtobuf(how), keepAll, false) },
		"sync-stripped":     func(how setting) sample { return sync(how, strip, false) },
		"relist":            relist,
		"events":            func(how setting) sample { return events(how, keepAll) },
		"events-protobuf":   func(how setting) sample { return events(inProtobuf(how), keepAll) },
		"events-stripped":   func(how setting) sample { return events(how, strip) },
		"events-8":          func(how setting) sample { return eventsTo(how, 8) },
		"events-64":         func(how setting) sample { return eventsTo(how, 64) },
		"held":              held,
		"subscribe":         subscribe,
		"fifo":              func(how setting) sample { return addThenPop(how, realFIFO()) },
		"fifo-cycle":        func(how setting) sample { return addAndPop(how, realFIFO()) },
		"delta-fifo":        func(how setting) sample { return addThenPop(how, deltaFIFO()) },
		"delta-fifo-cycle":  func(how setting) sample { return addAndPop(how, deltaFIFO()) },
		"fifo-store":        func(how setting) sample { return through(how, false) },
		"fifo-store-update": func(how setting) sample { return through(how, true) },
		"store-add":         storeAdd,
		"store-get":         func(how setting) sample { return storeGet(how, func(any) bool { return true }) },
		"store-get-read":    func(how setting) sample { return storeGet(how, isOnNode) },
		"store-by-index":    storeByIndex,
		"store-list":        storeList,
		"store-update-same": func(how setting) sample { return storeUpdate(how, false) },
		"store-update-node": func(how setting) sample { return storeUpdate(how, true) },
		"store-2r1w":        twoReadersOneWriter,
	})
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

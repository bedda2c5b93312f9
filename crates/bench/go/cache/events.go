package main

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"pintle.dev/bench/internal/meter"
)

func events(how meter.Setting, kept kept) meter.Sample {
	return round(how, settled(how, kept), 200_000, 1, 0)
}

func eventsTo(how meter.Setting, handlers int) meter.Sample {
	informer := settled(how, keepAll)
	one := round(how, informer, 200_000, 1, 0)
	all := round(how, informer, 200_000, handlers-1, 1)
	all.Figures["times the CPU of one"] = all.CPUNs / one.CPUNs
	return all
}

// round adds handlers to those from earlier rounds, and then measures n updates.
func round(how meter.Setting, informer cache.SharedIndexInformer, n, added, before int) meter.Sample {
	n = how.Size(n)
	handlers := make([]*counter, added)
	for i := range handlers {
		handlers[i] = count(informer, n)
		until(handlers[i].synced)
	}
	var begin, end time.Time
	sample := meter.Measure(func() meter.Tally {
		begin = feed(how.Server).events(before*n, n)
		for _, handler := range handlers {
			if done := handler.wait(); done.After(end) {
				end = done
			}
		}
		return meter.Operations(n)
	})
	sample.Figures["events/s"] = float64(n) / end.Sub(begin).Seconds()
	sample.Figures["share of the events delivered"] = 1
	return sample
}

func relist(how meter.Setting) meter.Sample {
	informer, server := settled(how, keepAll), feed(how.Server)
	pods := server.stats().Pods
	handler := count(informer, pods/100)
	until(handler.synced)
	steady := meter.Resident()
	var took time.Duration
	// As on the other sides, do not collect garbage first.
	sample := meter.MeasureOnly(func() meter.Tally {
		server.expire(pods / 100)
		took = handler.wait().Sub(server.listed())
		time.Sleep(time.Second)
		return meter.Operations(pods)
	})
	sample.Figures["s from list to handler"] = took.Seconds()
	sample.Figures["peak over steady, nothing reclaimed"] = meter.Peak() / steady
	sample.Figures["bytes steady, nothing reclaimed"] = steady
	return sample
}

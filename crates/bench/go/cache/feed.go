package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// feed is the load server, as the programs that are fed by it see it.
type feed string

type stats struct {
	Pods    int
	Version uint64
	Watches int
	Listed  int64
}

func (f feed) ask(path string) []byte {
	answer := must(http.Get(string(f) + path))
	defer answer.Body.Close()
	return must(io.ReadAll(answer.Body))
}

func (f feed) stats() (now stats) {
	check(json.Unmarshal(f.ask("/control/stats"), &now))
	return now
}

// waitForWatch waits for the one watch of this program.
func (f feed) waitForWatch() {
	for f.stats().Watches != 1 {
		time.Sleep(20 * time.Millisecond)
	}
}

// events has it begin to send so many updates, after so many before, and returns when that was.
func (f feed) events(first, n int) time.Time {
	begin := time.Now()
	f.ask(fmt.Sprintf("/control/events?first=%d&n=%d", first, n))
	return begin
}

// expire changes so many pods, and ends the watch as too old.
func (f feed) expire(changed int) { f.ask(fmt.Sprintf("/control/expire?changed=%d", changed)) }

// listed is when the last list was asked for.
func (f feed) listed() time.Time { return time.Unix(0, f.stats().Listed) }

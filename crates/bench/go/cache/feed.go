package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// feed sends the control requests of the load server.
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

// waitForWatch waits until the watch of this program is open.
func (f feed) waitForWatch() {
	for f.stats().Watches != 1 {
		time.Sleep(20 * time.Millisecond)
	}
}

// events makes the server send updates, after a number of earlier ones, and returns the time of the request.
func (f feed) events(first, n int) time.Time {
	begin := time.Now()
	f.ask(fmt.Sprintf("/control/events?first=%d&n=%d", first, n))
	return begin
}

// expire changes a number of pods and ends the watch with 410 Expired.
func (f feed) expire(changed int) { f.ask(fmt.Sprintf("/control/expire?changed=%d", changed)) }

// listed returns the time of the last list request.
func (f feed) listed() time.Time { return time.Unix(0, f.stats().Listed) }

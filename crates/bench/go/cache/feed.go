package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// feed sends the load server's control requests.
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

// waitForWatch waits until this program's watch is open.
func (f feed) waitForWatch() {
	for f.stats().Watches != 1 {
		time.Sleep(20 * time.Millisecond)
	}
}

// events makes the server send updates, after `first` earlier ones, and returns the request's time.
func (f feed) events(first, n int) time.Time {
	begin := time.Now()
	f.ask(fmt.Sprintf("/control/events?first=%d&n=%d", first, n))
	return begin
}

// expire changes some pods and ends the watch with 410 Expired.
func (f feed) expire(changed int) { f.ask(fmt.Sprintf("/control/expire?changed=%d", changed)) }

// listed returns the time of the last list request.
func (f feed) listed() time.Time { return time.Unix(0, f.stats().Listed) }

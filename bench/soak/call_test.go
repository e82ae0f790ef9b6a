package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/bench/client"
)

// TestCallsAreJudged judges what could come of calls: what does not keep a promise is found.
func TestCallsAreJudged(t *testing.T) {
	t.Parallel()
	w := &world{}
	w.up.Store(1)
	w.boot.Store(1)
	const (
		log1, log2   = `{"method":"notifications/message","params":{"logger":"count","data":"1 of 2"}}`, `{"method":"notifications/message","params":{"logger":"count","data":"2 of 2"}}`
		step1, step2 = `{"method":"notifications/progress","params":{"progressToken":"t","progress":1,"total":2}}`, `{"method":"notifications/progress","params":{"progressToken":"t","progress":2,"total":2}}`
		counted      = `{"id":1,"result":{"content":[{"type":"text","text":"counted to 2"}]}}`
		echoed       = `{"id":2,"result":{"content":[{"type":"text","text":"x"}]}}`
		lost         = `{"id":2,"error":{"code":-32010}}`
	)
	whole := []string{"", step1, log1, step2, log2, counted}
	for name, c := range map[string]struct {
		events []string
		dying  int64 // the start that was harmed
		once   bool  // the second call may not run again
		wrong  string
	}{
		"all":                                {append(whole, echoed), 0, false, ""},
		"between each other":                 {[]string{"", step1, echoed, log1, step2, log2, counted}, 0, false, ""},
		"no answer":                          {whole, 0, false, "0 answers"},
		"two answers":                        {append(whole, echoed, echoed), 0, false, "last and only one"},
		"an event that is lost":              {[]string{"", step1, log1, step2, counted, echoed}, 0, false, "1 log messages of 2"},
		"an event that comes twice":          {[]string{"", step1, step1, log1, step2, log2, counted, echoed}, 0, false, "want progress 2 of 2"},
		"events out of order":                {[]string{"", step2, step1, log1, log2, counted, echoed}, 0, false, "want progress 1 of 2"},
		"an event after the answer":          {[]string{"", step1, log1, step2, counted, log2, echoed}, 0, false, "last and only one"},
		"another's message":                  {append(whole, strings.Replace(step1, `"t"`, `"u"`, 1), echoed), 0, false, "belongs to no call"},
		"another's answer":                   {append(whole, strings.Replace(echoed, `"x"`, `"y"`, 1)), 0, false, `is "y" and not "x"`},
		"a safe call is given up":            {append(whole, lost), 1, false, "error -32010"},
		"a call is given up":                 {append(whole, lost), 1, true, ""},
		"a call is given up, nobody was hit": {append(whole, lost), 0, true, "nobody was killed"},
	} {
		w.dying.Store(c.dying)
		v := &visitor{w: w, kind: "client"}
		count, echo := v.newCount(2, 0, `"t"`), v.newCall("echo", `{}`, "x")
		count.id, echo.id, count.boot, echo.boot, echo.safe = "1", "2", 1, 1, !c.once
		var events []client.Event
		for i, data := range c.events {
			events = append(events, client.Event{ID: fmt.Sprintf("s.%d.0", i), Data: data})
		}
		if events[0].Data == "" {
			events = events[1:] // of several calls nothing primes a stream
		}
		err := judgeCalls([]*call{count, echo}, events, false)
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: got %v, want an error that says %q", name, err, c.wrong)
		}
	}
}

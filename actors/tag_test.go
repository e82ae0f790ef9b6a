package actors

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

// tagKeys makes tags that depend on the data alone, and seals nothing.
type tagKeys struct{ benchKeys }

func (tagKeys) Tag(data []byte) []byte {
	tag := make([]byte, 8)
	for i, c := range data {
		tag[i%8] = tag[i%8]*31 + c
	}
	return tag
}

func TestSessionKey(t *testing.T) {
	t.Parallel()
	id := newID()
	good := SessionKey{"ann", "main", id}.taggedID(tagKeys{})
	if len(good) != 39 || !strings.HasPrefix(good, id) {
		t.Fatalf("the id %q is named %q", id, good)
	}
	for _, tt := range []struct {
		name, tenant, server, id string
		keys                     store.Keys
		tagged, ok               bool
	}{
		{"as it was named", "ann", "main", good, tagKeys{}, true, true},
		{"by another principal", "bob", "main", good, tagKeys{}, false, true},
		{"at another server", "ann", "other", good, tagKeys{}, false, true},
		{"another id with its tag", "ann", "main", newID() + good[26:], tagKeys{}, false, true},
		{"without its tag", "ann", "main", id, tagKeys{}, false, true},
		{"after the store has lost its keys", "ann", "main", good, benchKeys{}, true, true},
		{"without keys", "ann", "main", id, benchKeys{}, true, true},
		{"a part of its tag", "ann", "main", good[:30], tagKeys{}, false, false},
		{"too long", "ann", "main", good + "a", tagKeys{}, false, false},
		{"no id", "ann", "main", strings.Repeat("!", 39), tagKeys{}, false, false},
		{"nothing", "ann", "main", "", tagKeys{}, false, false},
	} {
		k, ok := sessionKey(tt.tenant, tt.server, tt.id)
		if ok && k.hasTag(tt.id, tt.keys) != tt.tagged || ok != tt.ok || ok && (k != SessionKey{tt.tenant, tt.server, tt.id[:26]}) {
			t.Errorf("%s: got %v, ok %v, tagged %v", tt.name, k, ok, !tt.tagged)
		}
	}
}

// TestGuessesDoNotHoldUpSessions: however many requests name sessions that were never there, one whose session has left
// memory is served as soon as the store answers.
func TestGuessesDoNotHoldUpSessions(t *testing.T) {
	inBubble(t, Limits{}, crowd(), func(t *testing.T, h *held) {
		h.mrtr.keys = tagKeys{}
		var slow, most, reads, certain atomic.Int64
		h.mem.before = func(op, _ string) error {
			if op != "Get" && op != "Peek" || slow.Load() == 0 {
				return nil
			}
			if op == "Get" { // it may cost a write
				certain.Add(1)
			}
			most.Store(max(most.Load(), reads.Add(1)))
			time.Sleep(time.Duration(slow.Load()))
			reads.Add(-1)
			return nil
		}
		mine := h.begin("2025-11-25")
		time.Sleep(3 * time.Minute) // it has left memory
		slow.Store(int64(time.Second))
		const notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		guesses := make([]*heldConn, 100)
		for i := range guesses {
			guesses[i] = &heldConn{}
			go h.postOn(guesses[i], newID()+newID()[:tagLength], notification)
		}
		synctest.Wait()
		c, began := &heldConn{}, time.Now()
		h.postOn(c, mine, notification)
		if status, body := c.answer(); status != 202 || time.Since(began) != time.Second {
			t.Errorf("after %v: %d %s", time.Since(began), status, body)
		}
		time.Sleep(10 * time.Second)
		codes := make(map[int]int)
		for _, c := range guesses {
			status, _ := c.answer()
			codes[status]++
		}
		if n := most.Load(); n != int64(limits.GuessReads.Value())+1 || codes[404] == 0 || codes[404]+codes[503] != len(guesses) {
			t.Errorf("%d reads at once; answers %v", n, codes)
		}
		if n := certain.Load(); n != 1 {
			t.Errorf("%d questions that may cost a write, want that of the session that is there", n)
		}
	})
}

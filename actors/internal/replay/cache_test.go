package replay

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

func appendOf(num uint64, data string) stream.Append {
	return stream.Append{Num: num, Epoch: 7, Entries: []stream.Entry{{Kind: stream.Message, Data: []byte(data)}}}
}

// TestCache draws what happens to a cache of few bytes, and compares it with all that was ever kept: what it returns is what was
// kept last, whole and not too old, and its bytes are those of what it can return.
func TestCache(t *testing.T) {
	type kept struct {
		stream.Append
		until time.Time
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		const most = 4000
		c, all, now, found := NewCache(most), map[string]map[uint64]kept{}, time.Unix(0, 0), 0
		tails := map[string]uint64{}
		for range 2000 {
			path := fmt.Sprint(r.IntN(4))
			switch tail := tails[path]; r.IntN(12) {
			default:
				tail++
				if r.IntN(20) == 0 {
					tail += 2 // others have stored something meanwhile
					all[path] = nil
				}
				a, until := appendOf(tail, fmt.Sprintf("%d %*d", r.IntN(1000), r.IntN(300), 0)), now.Add(time.Duration(r.IntN(20))*time.Second)
				a.Last = r.IntN(30) == 0
				low := tail - min(tail-1, uint64(r.IntN(12)))
				c.Keep(path, a, low, until)
				if all[path] == nil {
					all[path] = map[uint64]kept{}
				}
				all[path][tail] = kept{a, until}
				for num := range all[path] {
					if num < low {
						delete(all[path], num)
					}
				}
				tails[path] = tail
			case 0:
				c.DropStream(path)
				all[path] = nil
			case 1:
				now = now.Add(time.Duration(r.IntN(3)) * time.Second)
				c.Expire(now)
			case 2, 3:
				from := tail - min(tail, uint64(r.IntN(8)))
				to := from + uint64(r.IntN(8))
				got, ok := c.Read(path, from, to, now)
				if !ok {
					continue
				}
				found += len(got)
				for num := from; num <= to; num++ {
					if want := all[path][num]; len(got) != int(to-from)+1 || !reflect.DeepEqual(got[num-from], want.Append) || !want.until.After(now) {
						t.Fatalf("seed %d: %d..%d of %s at %v: got %v, want %v", seed, from, to, path, now, got, want)
					}
				}
			case 4:
				if num, ok := c.EndOf(path, now); ok && (num != tail || !all[path][tail].Last) {
					t.Fatalf("seed %d: stream %s seems to have ended with append %d, has %v", seed, path, num, all[path][tail])
				}
			}
			var bytes int64
			for _, r := range c.runs {
				for i := range r.appends {
					bytes += sizeOf(&r.appends[i].Append)
				}
			}
			if used, _ := c.Use(); used != bytes || used > most {
				t.Fatalf("seed %d: %d bytes are used, the appends have %d, %d are allowed", seed, used, bytes, most)
			}
		}
		if _, read := c.Use(); found < 10 || read != int64(found) {
			t.Errorf("seed %d: %d appends were found, %d counted", seed, found, read)
		}
		c.Expire(now.Add(time.Hour))
		if used, _ := c.Use(); used != 0 || len(c.runs) != 0 || c.order != nil {
			t.Errorf("seed %d: after their time %d bytes of %d streams are left", seed, used, len(c.runs))
		}
	}
}

// TestCacheHasWhatWasJustKept checks what TestCache does not: that appends are found at all.
func TestCacheHasWhatWasJustKept(t *testing.T) {
	now := time.Unix(0, 0)
	c := NewCache(1 << 20)
	for num := uint64(3); num <= 200; num++ {
		a := appendOf(num, "x")
		a.Last = num == 200
		c.Keep("a", a, 1, now.Add(time.Second))
	}
	if got, ok := c.Read("a", 3, 200, now); !ok || len(got) != 198 || got[0].Num != 3 || got[197].Num != 200 {
		t.Errorf("got %d appends, %t", len(got), ok)
	}
	if num, ok := c.EndOf("a", now); num != 200 || !ok {
		t.Errorf("the stream ends with %d, %t", num, ok)
	}
	for _, at := range [][2]uint64{{2, 200}, {3, 201}, {9, 8}} {
		if got, ok := c.Read("a", at[0], at[1], now); ok {
			t.Errorf("%v: got %v", at, got)
		}
	}
	if got, ok := c.Read("a", 3, 200, now.Add(time.Second)); ok {
		t.Errorf("too late: got %v", got)
	}
	c = NewCache(0)
	if c.Keep("a", appendOf(1, "x"), 1, now.Add(time.Second)); len(c.runs) != 0 {
		t.Error("a cache of no bytes keeps something")
	}
}

func BenchmarkCacheKeep(b *testing.B) {
	c, now := NewCache(32<<20), time.Now()
	a := appendOf(0, "some text of a usual length, which is about a hundred and fifty bytes")
	b.ReportAllocs()
	for b.Loop() {
		a.Num++
		c.Keep("anon.demo.abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz", a, a.Num-min(a.Num-1, 999), now)
	}
}

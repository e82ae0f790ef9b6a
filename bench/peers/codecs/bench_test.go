package codecs

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
)

// loop measures n bytes. MB/cpu-s are megabytes in a second of processor time, that of the garbage collector included: on a machine that does
// something else, too, only those can be compared.
func loop(b *testing.B, n int, run func() error) {
	b.ReportAllocs()
	b.SetBytes(int64(n))
	if err := run(); err != nil { // the first time compiles types
		b.Fatal(err)
	}
	var began time.Duration
	for first := true; b.Loop(); first = false {
		if first {
			began = kit.CPU()
		}
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/(kit.CPU()-began).Seconds()/1e6, "MB/cpu-s")
}

// each runs a benchmark for all messages and, next to each other, all contestants.
func each(b *testing.B, run func(b *testing.B, c contestant, body []byte)) {
	for _, s := range shapes {
		for _, size := range sizes {
			body := s.body(size.n)
			for _, c := range contestants() {
				by := strings.ReplaceAll(c.name, "/", ".") // benchstat takes what follows a slash for another key
				b.Run("body="+s.name+"-"+size.name+"/by="+by, func(b *testing.B) { run(b, c, body) })
			}
		}
	}
}

// BenchmarkEnvelope finds id, method and params of a message.
func BenchmarkEnvelope(b *testing.B) {
	each(b, func(b *testing.B, c contestant, body []byte) {
		loop(b, len(body), func() error {
			_, err := c.envelope(body)
			return err
		})
	})
}

// BenchmarkStruct decodes arguments, which were found before, into their type.
func BenchmarkStruct(b *testing.B) { decode[arguments](b) }

// BenchmarkMap decodes them into a map.
func BenchmarkMap(b *testing.B) { decode[map[string]any](b) }

func decode[T any](b *testing.B) {
	each(b, func(b *testing.B, c contestant, body []byte) {
		_, _, args, err := c.call(body)
		if err != nil {
			b.Fatal(err)
		}
		loop(b, len(args), func() error {
			var v T
			return c.decode(args, &v)
		})
	})
}

// BenchmarkResult writes an answer that is as large as the message.
func BenchmarkResult(b *testing.B) {
	each(b, func(b *testing.B, c contestant, body []byte) {
		p, _, args, err := c.call(body)
		if err != nil {
			b.Fatal(err)
		}
		var v arguments
		if err := c.decode(args, &v); err != nil {
			b.Fatal(err)
		}
		r := resultOf(&v)
		dst, err := c.respond(nil, p.id, r)
		if err != nil {
			b.Fatal(err)
		}
		loop(b, len(dst), func() error {
			dst, err = c.respond(dst[:0], p.id, r)
			return err
		})
	})
}

// BenchmarkWhole does all that a call to a tool with a type needs, from the message to the answer.
func BenchmarkWhole(b *testing.B) {
	each(b, func(b *testing.B, c contestant, body []byte) {
		var dst []byte
		loop(b, len(body), func() error {
			p, _, args, err := c.call(body)
			if err != nil {
				return err
			}
			var v arguments
			if err := c.decode(args, &v); err != nil {
				return err
			}
			dst, err = c.respond(dst[:0], p.id, resultOf(&v))
			return err
		})
	})
}

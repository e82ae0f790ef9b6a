package mrtr

import (
	"fmt"
	"testing"
	"time"
)

// However many answers are to be kept, the newest are, as many as may be.
func TestOutcomesAreBounded(t *testing.T) {
	for name, tt := range map[string]struct{ puts, size, kept int }{
		"by number": {puts: maxOutcomes + 100, size: 10, kept: maxOutcomes},
		"by bytes":  {puts: 40, size: 1 << 20, kept: maxOutcomeBytes >> 20},
	} {
		t.Run(name, func(t *testing.T) {
			o := Outcomes{}
			for i := range tt.puts {
				o.Put(fmt.Sprint(i), Outcome{Rest: make([]byte, tt.size), Until: time.Now().Add(time.Hour)})
			}
			for i := range tt.puts {
				if _, ok := o.Get(fmt.Sprint(i)); ok != (i >= tt.puts-tt.kept) {
					t.Fatalf("of %d, the one that came as number %d is kept: %v", tt.puts, i, ok)
				}
			}
			if len(o.all) != tt.kept || len(o.order) != tt.kept || o.bytes != tt.kept*tt.size {
				t.Errorf("%d kept, %d in order, %d bytes", len(o.all), len(o.order), o.bytes)
			}
		})
	}
}

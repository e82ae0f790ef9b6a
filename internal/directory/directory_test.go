package directory

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestDirectoryMakesOnce(t *testing.T) {
	d := New[int, *int]()
	var made atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			v, err := d.Obtain(7, func() (*int, error) { n := int(made.Add(1)); return &n, nil })
			if err != nil || *v != 1 {
				t.Errorf("got %v, %v", *v, err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 || d.Len() != 1 {
		t.Errorf("made %d, len %d", made.Load(), d.Len())
	}
	fault := errors.New("no")
	if _, err := d.Obtain(8, func() (*int, error) { return nil, fault }); !errors.Is(err, fault) {
		t.Errorf("a failed maker: %v", err)
	}
	if _, ok := d.Get(8); ok {
		t.Error("a failed maker left something behind")
	}
	v, _ := d.Get(7)
	d.Drop(7, new(int))
	if d.Len() != 1 {
		t.Error("another one's drop removed it")
	}
	d.Drop(7, v)
	if d.Len() != 0 {
		t.Error("a dropped key is still there")
	}
}

// TestCurrentWaits checks that what is being obtained is not said to be missing.
func TestCurrentWaits(t *testing.T) {
	for _, fault := range []error{nil, errors.New("no")} {
		synctest.Test(t, func(t *testing.T) {
			d := New[int, *int]()
			made, said := make(chan struct{}), make(chan bool, 1)
			go func() {
				_, _ = d.Obtain(7, func() (*int, error) { <-made; return new(int), fault })
			}()
			synctest.Wait()
			go func() {
				_, here := d.Current(7)
				said <- here
			}()
			synctest.Wait()
			if _, here := d.Get(7); here || len(said) > 0 {
				t.Error("it is judged before it is made")
			}
			close(made)
			if here := <-said; here != (fault == nil) {
				t.Errorf("made with %v, current says %t", fault, here)
			}
		})
	}
}

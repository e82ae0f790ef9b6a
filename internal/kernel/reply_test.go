package kernel

import "testing"

func TestReplyIsNeverLost(t *testing.T) {
	var r Reply
	for range 20000 {
		r.Init()
		go r.Done()
		r.Wait()
	}
	r.Init()
	r.Done()
	r.Wait()
}

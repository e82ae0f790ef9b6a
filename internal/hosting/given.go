package hosting

import (
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// mostGiven bounds the answers of a call that are kept for another run of it, in bytes.
var mostGiven = limits.Recall.Value()

// givenAnswers are what the client of a call has answered. Another run of the call, whose instance was lost, has them where it asks the same; the
// client is asked once. The zero value keeps nothing.
type givenAnswers struct {
	keeps bool                       // the call may run once more
	of    map[string][]actors.Answer // by the keys of their questions, in the order in which they came
	bytes int
	asked map[string]int // how often this run has asked, by the keys
}

// beginRun says that another run of the call begins.
func (g *givenAnswers) beginRun() { g.asked = nil }

// answerOf returns what an earlier run has got for a question of this run, nil if it has asked less often.
func (g *givenAnswers) answerOf(q *actors.Question) *actors.Answer {
	if !g.keeps || !isKept(q) {
		return nil
	}
	if g.asked == nil {
		g.asked = make(map[string]int)
	}
	n := g.asked[q.Key]
	g.asked[q.Key]++
	if n < len(g.of[q.Key]) {
		return &g.of[q.Key][n]
	}
	return nil
}

// add keeps an answer. It reports false if there is no room for it.
func (g *givenAnswers) add(q *actors.Question, a actors.Answer) bool {
	size := len(q.Key) + len(a.Result)
	if a.Err != nil {
		size += len(a.Err.Message) + len(a.Err.Data)
	}
	switch {
	case !g.keeps || !isKept(q):
		return true
	case g.bytes+size > mostGiven:
		return false
	case g.of == nil:
		g.of = make(map[string][]actors.Answer)
	}
	g.of[q.Key] = append(g.of[q.Key], a)
	g.bytes += size
	return true
}

// isKept reports whether the answer to a question is kept here: roots are, where the session is.
func isKept(q *actors.Question) bool { return q.Method != mcp.MethodRootsList }

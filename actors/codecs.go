package actors

import (
	"reflect"

	"github.com/troupe-run/troupe/internal/mrtr"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/relay"
	"github.com/troupe-run/troupe/internal/session"
)

// Types lists what nodes encode and decode as JSON: the records of sessions and streams, the states of stateless calls, and the
// letters between nodes. A node of a fleet
// has their codecs compiled before its first request.
func Types() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[session.Record](), reflect.TypeFor[record.Stream](), reflect.TypeFor[mrtr.State](),
		reflect.TypeFor[relayed](), reflect.TypeFor[relay.Refusal](),
		reflect.TypeFor[answerLetter](), reflect.TypeFor[streamLetter](), reflect.TypeFor[extentLetter](),
		reflect.TypeFor[sessionLetter](), reflect.TypeFor[cancelLetter](), reflect.TypeFor[pushLetter](),
		reflect.TypeFor[updatedLetter](), reflect.TypeFor[listsLetter](), reflect.TypeFor[usageLetter](), reflect.TypeFor[TaskChange](),
	}
}

package task

import "encoding/json"

// Question is one that a task has asked. Its key is never used again for another question
// of the task, so that an answer that comes late can only be one to it.
type Question struct {
	Key     string          `json:"key"`
	Request json.RawMessage `json:"request,omitempty"` // method and params; nil once the task has ended
	Answer  json.RawMessage `json:"answer,omitempty"`  // result, or error as an object with code and message; nil then, too
	Refused bool            `json:"refused,omitempty"` // Answer is an error
}

// isOpen reports whether the question has no answer.
func (q *Question) isOpen() bool { return q.Answer == nil }

// Reply is a client's answer to a question: a result, or an error if Refused is set.
type Reply struct {
	Value   json.RawMessage
	Refused bool
}

package record

import (
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
)

// numberedMeta begins the meta of a request entry whose question is numbered. Earlier metas
// begin with the quote of the id.
const numberedMeta = 1

// Question is a question that a call has put to its client.
type Question struct {
	ID     string          `json:"id"` // raw token
	Key    string          `json:"key"`
	Use    int             `json:"use"`              // how often the call had asked with the key by then, this time included
	Member int             `json:"member,omitempty"` // index of its call
	Answer json.RawMessage `json:"answer,omitempty"` // the client's answer, nil without one
	Failed bool            `json:"failed,omitempty"` // the answer is an error
}

// Size is about the size of the question in a record, in bytes.
func (q *Question) Size() int { return len(q.ID) + len(q.Key) + len(q.Answer) + 64 }

// QuestionMeta makes the meta of a request entry: the number of the question, the index of
// its call in a batch, its id and its key.
func QuestionMeta(q Question) []byte {
	meta := binary.AppendUvarint([]byte{numberedMeta}, uint64(q.Use))
	meta = binary.AppendUvarint(meta, uint64(q.Member))
	meta = binary.AppendUvarint(meta, uint64(len(q.ID)))
	return append(append(meta, q.ID...), q.Key...)
}

// QuestionOf reads the meta of a request entry. Use is 0 if the question was not numbered.
func QuestionOf(meta []byte) (q Question) {
	if len(meta) == 0 || meta[0] != numberedMeta {
		return questionOfV1(meta)
	}
	rest := meta[1:]
	var fields [3]uint64
	for i := range fields {
		n, k := binary.Uvarint(rest)
		if k <= 0 || n >= MaxMembers {
			return Question{}
		}
		fields[i], rest = n, rest[k:]
	}
	if fields[2] > uint64(len(rest)) {
		return Question{}
	}
	return Question{Use: int(fields[0]), Member: int(fields[1]), ID: string(rest[:fields[2]]), Key: string(rest[fields[2]:])}
}

// questionOfV1 reads the meta of releases that did not number questions: id and key and, in
// a batch, the index, separated by zeroes.
func questionOfV1(meta []byte) Question {
	id, rest, _ := strings.Cut(string(meta), "\x00")
	if i := strings.LastIndexByte(rest, 0); i >= 0 {
		if n, err := strconv.Atoi(rest[i+1:]); err == nil && n > 0 && n < MaxMembers {
			return Question{ID: id, Key: rest[:i], Member: n}
		}
	}
	return Question{ID: id, Key: rest}
}

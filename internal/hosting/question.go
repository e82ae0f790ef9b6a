package hosting

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// questionFor returns a question of a backend as the client of a caller gets it, or why it is not put. Its key is made of the
// question, so that only the answer to the same question has it.
func questionFor(c *Caller, method string, params []byte) (actors.Question, *mcp.Error) {
	if refusal := c.checkQuestion(method, params); refusal != nil {
		return actors.Question{}, refusal
	}
	params, err := projectQuestion(method, params, c.Revision)
	switch {
	case errors.Is(err, mcp.ErrInexpressible):
		return actors.Question{}, mcp.NewError(mcp.CodeInvalidParams, strings.TrimPrefix(err.Error(), "mcp: "))
	case err != nil:
		return actors.Question{}, mcp.NewError(mcp.CodeInvalidParams, "the params of the question do not fit its method")
	}
	key := keyOf(method, params)
	if isURL(params) && protocol.Has(c.Revision, protocol.FeatureElicitationIDs) && codec.Optional(params, "elicitationId") == nil {
		params = WithMember(params, "elicitationId", quoted(key)) // which the revision of the backend does not have
	}
	return actors.Question{Key: key, Method: method, Params: params}, nil
}

func isURL(params []byte) bool {
	return codec.SameString(codec.Field(params, "mode"), mcp.ElicitModeURL)
}

// keyOf is the key of a question: the same for the same question, and for no other.
func keyOf(method string, params []byte) string {
	h := sha256.New()
	h.Write(append([]byte(method), '\n'))
	h.Write(codec.AppendCanonical(nil, Without(params, "_meta")))
	word, _, _ := strings.Cut(method, "/")
	return word + "-" + hex.EncodeToString(h.Sum(nil)[:12])
}

// projectQuestion returns the params of a question for a client of the revision. They keep their bytes, unless the revision lacks something
// that they have. Since 2026-07-28 a question is no request, and has neither `_meta` nor the id of an elicitation. Nobody is asked to
// make a task of it: nothing here would follow that.
func projectQuestion(method string, params []byte, r mcp.Revision) ([]byte, error) {
	if params = Without(params, "task"); params == nil {
		params = []byte("{}")
	}
	if r.Stateless() {
		return Without(params, "_meta", "elicitationId"), nil
	}
	switch {
	case method == mcp.MethodSamplingCreateMessage:
		return projected(params, r, protocol.SamplingFor)
	case method == mcp.MethodElicitationCreate && isURL(params):
		return projected(params, r, protocol.URLQuestionFor)
	case method == mcp.MethodElicitationCreate:
		return projected(params, r, protocol.FormQuestionFor)
	}
	return params, nil
}

// projected returns what to makes of raw for the revision: raw itself if it changes nothing of it.
func projected[T any](raw []byte, r mcp.Revision, to func(T, mcp.Revision) (T, error)) ([]byte, error) {
	var v T
	if err := codec.UnmarshalValid(raw, &v); err != nil {
		return nil, err
	}
	before, err := codec.Marshal(v)
	if err != nil {
		return nil, err
	}
	if v, err = to(v, r); err != nil {
		return nil, err
	}
	after, err := codec.Marshal(v)
	if err != nil || bytes.Equal(before, after) {
		return raw, err
	}
	return after, nil
}

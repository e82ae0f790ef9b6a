package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

func isStream(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && kindOf(res) == "text/event-stream"
}

func kindOf(res *http.Response) string {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return kind
}

const (
	// mostExcerpt is how much of a body that is no message an error shows, in bytes.
	mostExcerpt = 300
	// mostStray is how much is read of a body that is not said to be JSON.
	mostStray = 64 << 10
)

// readAnswer reads a response that is one message, and closes its body.
func readAnswer(ctx context.Context, res *http.Response, id string) (json.RawMessage, error) {
	defer res.Body.Close()
	most := mostStray
	if kindOf(res) == "application/json" {
		most = MostBytes
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	if err != nil {
		return nil, noResponse(ctx, err)
	}
	strange := &StatusError{Status: res.StatusCode, Header: res.Header, Body: excerptOf(body)}
	if len(body) > most {
		strange.Why = fmt.Sprintf("more than %d bytes", most)
		return nil, askedLater(res, strange)
	}
	all, err := parseMessages(body)
	if err != nil {
		if res.StatusCode/100 == 2 && most == MostBytes {
			strange.Why = err.Error()
		}
		return nil, askedLater(res, strange)
	}
	for _, m := range all {
		if !m.isAnswerTo(id) {
			continue
		}
		result, err := m.resultOrError()
		if err == nil && res.StatusCode != http.StatusOK {
			return nil, strange
		}
		// A server that knows the client's user, or not, says so in its headers.
		if res.StatusCode == http.StatusUnauthorized {
			return nil, strange
		}
		return result, askedLater(res, err)
	}
	strange.Why = "an answer to another request"
	return nil, strange
}

// excerptOf is the beginning of a body on one line.
func excerptOf(body []byte) string {
	text := string(body[:min(len(body), mostExcerpt)])
	if len(body) > mostExcerpt {
		text += "..."
	}
	return strings.Join(strings.Fields(text), " ")
}

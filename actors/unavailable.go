package actors

import (
	"errors"

	"github.com/troupe-run/troupe/mcp"
)

// Unavailable is the error of a request that cannot be served now, because the store does
// not answer, and that may be sent again. A Handler returns it as it is: the same pointer.
// A request that stands for itself is answered with status 503 by it. It must not be
// changed.
var Unavailable = &mcp.Error{Code: mcp.CodeInternalError, Message: "temporarily unavailable: try again shortly", Data: []byte(`{"retryAfterMs":1000}`)}

// Later reports whether err says that the store has not done what it was asked, or that
// nobody knows, while it may a moment later.
func Later(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrAgain) || errors.Is(err, ErrFull)
}

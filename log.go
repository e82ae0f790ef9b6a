package troupe

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// LogMessage is a log message on its way to a client.
type LogMessage struct {
	Server string // the server's id, see ServerOptions.ID
	Level  mcp.LoggingLevel
	Logger string
	Data   any // as it was given to Log
}

// defaultLevel is where logging starts before a client has set a level.
const defaultLevel = mcp.LevelInfo

// ownLogger is the logger of messages that no handler has sent.
const ownLogger = "troupe"

// Log sends a log message to the client if its level asks for it; data is any
// value that encodes as JSON, and must hold no secrets. Before the client has
// set a level it gets everything from info on; since 2026-07-28 each request has a
// level of its own, and one without a level gets nothing. What exceeds Options.Limits.LogRate
// is dropped; the client is told how many messages that were. An error means that data
// does not encode or that the call has ended.
func (c *Call) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	send, dropped, err := c.c.AdmitLog(wants(c.peer.p, level))
	if dropped {
		c.dropped.Store(true)
	}
	if !send {
		return err
	}
	if err := c.tellMissed(ctx); err != nil {
		return err
	}
	params, send, err := c.svc.logParams(level, logger, data)
	if !send {
		c.c.Pass()
		return err
	}
	return c.c.Notify(ctx, mcp.NotifyMessage, params)
}

// tellMissed tells the client how many log messages were dropped, if any.
func (c *Call) tellMissed(ctx context.Context) error {
	n := c.c.Missed()
	if n == 0 || !wants(c.peer.p, mcp.LevelWarning) {
		return nil
	}
	return c.c.Tell(ctx, mcp.NotifyMessage, missedParams(n))
}

// Log sends a log message that belongs to no call, on the session's standalone
// stream. It fails with ErrNoStream when the client has never opened one, and for one
// that has no session (2026-07-28), whose messages belong to its calls; while its
// connection is away the message waits for its return. A message that the client's level
// does not ask for is no failure. The rest is as for Call.Log.
func (p *Peer) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	if p.p.Revision().Stateless() {
		return ErrNoStream
	}
	if !wants(p.p, level) || !p.p.AdmitLog(p.pushMissed) {
		return nil
	}
	if n := p.p.Missed(); n > 0 && wants(p.p, mcp.LevelWarning) {
		if err := p.p.Notify(ctx, mcp.NotifyMessage, missedParams(n)); err != nil {
			return err
		}
	}
	params, send, err := p.p.Handler().(*service).logParams(level, logger, data)
	if !send {
		return err
	}
	return p.p.Notify(ctx, mcp.NotifyMessage, params)
}

// pushMissed tells the client of dropped messages once there is room again, if no
// other message has.
func (p *Peer) pushMissed() {
	if n := p.p.Missed(); n > 0 && wants(p.p, mcp.LevelWarning) {
		p.p.Push(mcp.NotifyMessage, missedParams(n))
	}
}

// wants reports whether the client wants messages of a level.
func wants(p *actors.Peer, level mcp.LoggingLevel) bool {
	least := mcp.LoggingLevel(p.Level())
	if least == "" {
		if p.Revision().Stateless() { // it asks for log messages with each request
			return false
		}
		least = defaultLevel
	}
	return level.Severity() >= least.Severity()
}

// logParams encodes a message as far as Options.Redact lets it through.
func (s *service) logParams(level mcp.LoggingLevel, logger string, data any) (params []byte, send bool, err error) {
	if redact := s.rt.opts.Redact; redact != nil {
		m := LogMessage{Server: s.id, Level: level, Logger: logger, Data: data}
		if !redact(&m) {
			return nil, false, nil
		}
		level, logger, data = m.Level, m.Logger, m.Data
	}
	raw, err := codec.Marshal(data)
	if err != nil {
		return nil, false, err
	}
	params, err = codec.Marshal(mcp.LogParams{Level: level, Logger: logger, Data: json.RawMessage(raw)})
	return params, err == nil, err
}

func missedParams(n int64) []byte {
	return fmt.Appendf(nil, `{"level":"warning","logger":"`+ownLogger+`","data":"%d log messages were dropped: there were too many"}`, n)
}

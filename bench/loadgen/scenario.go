package loadgen

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// A scenario is what a client does over and over, or what a crowd of them does once.
type scenario struct {
	what  string // in a sentence
	tool  string // that the server must have, "" for none
	needs string // what that tool must do
	do    func(ctx context.Context, c *client) (events int64, err error)
	whole func(ctx context.Context, o *Options, l *ledger) error // instead of do: the run from its beginning to its end

	bare   bool    // do begins its own session
	legacy bool    // it needs sessions
	modern bool    // it needs a revision without sessions
	count  int     // how many sessions or streams there are by default, 0 if it has clients instead
	rate   float64 // of operations in a second by default, 0 is a closed loop
}

// countNeeds is what the tool count must do for clients that read its numbers one by one.
const countNeeds = `takes {"to":20,"delay_ms":50} and reports progress for each number`

// fillOptions fills in the defaults of the scenario, and says what of the options it cannot do.
func (s *scenario) fillOptions(o *Options) error {
	o.Count, o.Rate = cmp.Or(o.Count, s.count), cmp.Or(o.Rate, s.rate)
	switch {
	case s.legacy && o.stateless():
		return fmt.Errorf("%s has no sessions, which %s is about: choose another revision", Stateless, o.Scenario)
	case s.modern && !o.stateless():
		return fmt.Errorf("%s is about calls of %s: choose that revision", o.Scenario, Stateless)
	case s.count > 0 && (o.Count < 1 || o.Count > MostCount):
		return fmt.Errorf("count is %d: want 1 to %d", o.Count, MostCount)
	case s.count == 0 && o.Count != 0:
		return fmt.Errorf("%s has no count, only clients", o.Scenario)
	}
	return nil
}

// checkTool says what the server lacks for a scenario, before it is begun.
func (s *scenario) checkTool(ctx context.Context, c *client) error {
	tool := s.tool
	if tool == "" {
		return nil
	}
	tool = c.toolOr(tool)
	var there []string
	for cursor := ""; ; {
		params := ""
		if cursor != "" {
			params = `"cursor":` + quoteJSON(cursor)
		}
		m, err := c.callMethod(ctx, c.newID(), "tools/list", "", params, nil)
		if err != nil {
			return fmt.Errorf("tools/list: %w", err)
		}
		r, err := resultOf(m)
		if err != nil {
			return err
		}
		for _, t := range r.Tools {
			if t.Name == tool {
				return nil
			}
			there = append(there, strconv.Quote(t.Name))
		}
		if cursor = r.Cursor; cursor == "" {
			break
		}
	}
	return fmt.Errorf("the server has no tool %q, which %s: name another one (--tool, --arguments); it has %s", tool, s.needs, strings.Join(there[:min(len(there), 20)], ", "))
}

// probeServer looks with a client of its own whether the server can do the scenario.
func (s *scenario) probeServer(ctx context.Context, o *Options) error {
	if s.tool == "" && s.do == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	c := newClient(o)
	defer c.closeConnections()
	if !s.bare {
		if err := c.initialize(ctx); err != nil {
			return err
		}
	}
	defer func() { _ = c.endSession(ctx) }() // A session that is left expires.
	if err := s.checkTool(ctx, c); err != nil || s.do == nil {
		return err
	}
	if _, err := s.do(ctx, c); err != nil {
		return fmt.Errorf("the first operation failed: %w", err)
	}
	return nil
}

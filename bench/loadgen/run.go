package loadgen

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// scenarios by name.
var scenarios = map[string]*scenario{
	"echo":     &echoing,
	"list":     {what: "list the tools", do: listTools},
	"progress": {what: "call a tool that reports progress 20 times, and read its event stream", tool: "count", needs: `takes {"to":20} and reports progress`, do: callCount},
	"sessions": {what: "begin a session and end it", do: cycleSession, bare: true, legacy: true},
	"ask":      {what: "call a tool that asks the user, and answer", tool: "ask", needs: `takes {"question":"?"}, asks for {"answer":"..."} and returns that`, do: callAsk},
	"tasks":    {what: "begin a task of one step, and wait for its result", tool: "job", needs: `takes {"steps":1,"step_ms":0} and becomes a task`, do: runTask},
	"mixed":    {what: "of 50 operations 40 are echo, 5 list, 4 progress and 1 ask", tool: "echo", needs: "as echo, with the tools of progress and ask beside it", do: doMixed},

	"hold":    {what: "begin sessions that stay, and look at the memory of the server", whole: runHold, legacy: true, count: 10_000},
	"parked":  {what: "leave calls that ask the user without an answer, and look at the memory of the server", tool: "ask", needs: `takes {"question":"?"} and asks for {"answer":"..."}`, whole: runHold, modern: true, count: 1000},
	"streams": {what: "keep idle event streams open, and look at the memory of the server", whole: runStreams, count: 1000},
	"resume":  {what: "cut event streams midway and resume all of them at once", tool: "count", needs: countNeeds, whole: runResume, legacy: true, count: 1000},
	"fanout":  {what: "update a resource, and wait until all who listen have heard of it", tool: "touch", needs: `takes {"uri": ...} and tells of an update of that resource`, whole: runFanout, count: 1000, rate: 4},
	"slow":    {what: "echo, alone and then beside a client that hardly reads a long event stream", tool: "echo", needs: "as echo, with the tool count beside it", whole: runSlow},
}

// Scenarios tells what there is, by name.
func Scenarios() map[string]string {
	all := make(map[string]string)
	for name, s := range scenarios {
		all[name] = s.what
	}
	return all
}

// Run runs a scenario and reports what came of it. An error means that there is no report: the
// options are wrong, or the server cannot do it. Operations that fail are in the report. When ctx
// ends, the run ends early, with a report.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.fillDefaults()
	s := scenarios[o.Scenario]
	if s == nil {
		return nil, fmt.Errorf("no scenario is called %q: there are %s", o.Scenario, strings.Join(slices.Sorted(maps.Keys(scenarios)), ", "))
	}
	if err := s.fillOptions(&o); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if _, err := usageOf(o.PIDs); err != nil {
		return nil, err
	}
	if err := s.probeServer(ctx, &o); err != nil {
		return nil, err
	}
	l := newLedger(&o)
	if s.whole != nil {
		if err := s.whole(ctx, &o, l); err != nil {
			return nil, err
		}
		return l.report, nil
	}
	r := newLoop(&o, s, l)
	defer r.clients.closeConnections()
	if err := r.beginClients(ctx); err != nil {
		return nil, err
	}
	if err := r.runOnce(ctx); err != nil {
		return nil, err
	}
	r.clients.endSessions(ctx)
	return l.report, nil
}

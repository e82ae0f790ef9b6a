package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/troupe-run/troupe"
)

type ledgerInput struct {
	File  string `json:"file" jsonschema:"where each step writes what it does"`
	Steps int    `json:"steps"`
	MS    int    `json:"ms" jsonschema:"milliseconds that a step takes"`
}

type ledgerOutput struct {
	Steps []int `json:"steps"`
}

// ledgers are the open files of addLedger, by their names.
var ledgers sync.Map

// write appends a line to a file with one system call: a killed process leaves whole lines, or
// none.
func write(file, line string) error {
	f, ok := ledgers.Load(file)
	if !ok {
		opened, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if f, ok = ledgers.LoadOrStore(file, opened); ok {
			_ = opened.Close()
		}
	}
	_, err := f.(*os.File).WriteString(line + "\n")
	return err
}

// line says what a task does, in which step and attempt, on which node, and when.
func line(what string, call *troupe.Call, step int) string {
	return fmt.Sprintf("%s %s %d %d %s %d", what, call.Task(), step, call.Attempt(), call.Node(), time.Now().UnixMilli())
}

// addLedger adds a tool whose calls become tasks that write down, outside of the store, when each
// of their steps begins and when it is stored. So it shows afterwards whether one ran that was
// stored before.
func addLedger(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "ledger", Description: "Works in steps and writes them down.", Task: troupe.TaskRequired, Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in ledgerInput) (ledgerOutput, error) {
			var out ledgerOutput
			for i := 1; i <= in.Steps; i++ {
				n, err := troupe.Step(ctx, call, fmt.Sprint(i), func(ctx context.Context) (int, error) {
					if err := write(in.File, line("begin", call, i)); err != nil {
						return 0, err
					}
					select {
					case <-time.After(time.Duration(in.MS) * time.Millisecond):
						return i, nil
					case <-ctx.Done():
						return 0, context.Cause(ctx)
					}
				})
				if err != nil {
					return out, err
				}
				if err := write(in.File, line("stored", call, i)); err != nil {
					return out, err
				}
				out.Steps = append(out.Steps, n)
			}
			return out, nil
		})
}

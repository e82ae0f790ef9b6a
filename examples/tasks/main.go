// Command tasks runs a long job in steps that survive the process. Start it, begin a task in another
// terminal, and kill the server, by the process number in its log, once it has downloaded:
//
//	go run ./examples/tasks
//	go run ./examples/try tools/call '{"name":"publish","arguments":{"title":"News"},"task":{}}'
//	kill -9 NUMBER
//
// Start it again, and wait for the result by the id that the call printed:
//
//	go run ./examples/try tasks/result '{"taskId":"ID"}'
//
// The log shows that the download does not run again: its result was stored. The step that was under way
// does. The upload names its file by the task's id, so that a second run of it replaces the file of the first.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type input struct {
	Title string `json:"title" jsonschema:"what to publish"`
}

func publish(ctx context.Context, call *troupe.Call, in input) (string, error) {
	text, err := troupe.Step(ctx, call, "download", func(ctx context.Context) (string, error) {
		return work(ctx, call, "download", "the text of "+in.Title)
	})
	if err != nil {
		return "", err
	}
	text, err = troupe.Step(ctx, call, "transform", func(ctx context.Context) (string, error) {
		return work(ctx, call, "transform", strings.ToUpper(text))
	})
	if err != nil {
		return "", err
	}
	return troupe.Step(ctx, call, "upload", func(ctx context.Context) (string, error) {
		name := "published-" + call.Task()
		if _, err := work(ctx, call, "upload", name); err != nil {
			return "", err
		}
		return name, os.WriteFile(name, []byte(text), 0o600)
	})
}

// work takes two seconds for a step.
func work(ctx context.Context, call *troupe.Call, step, result string) (string, error) {
	log.Printf("%s begins, in attempt %d", step, call.Attempt())
	select {
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	log.Printf("%s is done", step)
	return result, call.TaskMessage(ctx, fmt.Sprintf("%s is done", step))
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "tasks", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "publish", Description: "Downloads, transforms and uploads.", Task: troupe.TaskOptional, Rerun: troupe.Safe}, publish)

	rt, err := troupe.New(troupe.Options{Dir: "tasks-data", Listen: os.Getenv("LISTEN")}) // if empty, 127.0.0.1:8080
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	ln, err := rt.Listen()
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("process %d is serving http://%s/mcp", os.Getpid(), ln.Addr())
	log.Fatal(rt.ServeOn(context.Background(), ln))
}

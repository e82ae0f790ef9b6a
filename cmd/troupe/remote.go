package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/client"
	"github.com/troupe-run/troupe/mcp"
)

// tokenVariable is the environment variable that holds a token, so that it is not in the list of processes.
const tokenVariable = "TROUPE_TOKEN"

// remote is a server that a command speaks to as any client does, and how.
type remote struct {
	header   []string
	token    string
	revision string
	retry    time.Duration
	timeout  time.Duration
	asJSON   bool
	quiet    bool
}

// remoteFlags are the names of the flags of a remote server, as groups of the help.
var remoteFlags = []flagGroup{
	{"The server", []string{"header", "token", "revision", "retry", "timeout"}},
	{"Output", []string{"json", "quiet"}},
}

// remoteHelp says of a remote server what its flags do not.
const remoteHelp = `Speaks to any MCP server over streamable HTTP, in the newest revision that both sides know: 2026-07-28 is tried first, then
initialize. --revision fixes one. A server that is gone, or asks to come again later (Retry-After, retryAfterMs), is tried again for the
time that --retry says, each time that it goes away. What happens meanwhile is on standard error, and nothing is silent for longer than
two seconds.`

func (r *remote) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&r.header, "header", nil, "`name:value` of a header of every request; may be repeated")
	f.StringVar(&r.token, "token", "", "bearer `token`, or @ and the name of a file that has it; without the flag "+tokenVariable+" counts, if it is set")
	f.StringVar(&r.revision, "revision", "", "the only `revision` of the protocol to speak (the newest of both sides)")
	f.DurationVar(&r.retry, "retry", 30*time.Second, "`time` for which a server that is away is tried again; 0: not at all")
	f.DurationVar(&r.timeout, "timeout", 0, "`time` for all of it, after which the call is cancelled (no limit)")
	f.BoolVar(&r.asJSON, "json", false, "print the result as JSON, whole and as it came")
	f.BoolVar(&r.quiet, "quiet", false, "write nothing on standard error but why it failed")
	f.SortFlags = false
}

// options checks what the user says.
func (r *remote) options(endpoint string) (client.Options, error) {
	o := client.Options{URL: endpoint, Patience: r.retry, Name: "troupe", Version: version()}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return o, fmt.Errorf("URL is %q: want that of an MCP endpoint, such as http://127.0.0.1:8080/mcp", endpoint)
	}
	if r.revision != "" {
		known := false
		if o.Revision, known = mcp.ParseRevision(r.revision); !known {
			return o, fmt.Errorf("revision is %q: want one of %s", r.revision, strings.Join(troupe.Revisions(), ", "))
		}
	}
	if r.retry < 0 || r.timeout < 0 {
		return o, errors.New("retry and timeout: want a time from 0 on")
	}
	var err error
	if o.Header, err = parseHeaders(r.header); err != nil {
		return o, err
	}
	token, err := readContents(r.token)
	if err != nil {
		return o, fmt.Errorf("token: %w", err)
	}
	if token = strings.TrimSpace(cmp.Or(token, os.Getenv(tokenVariable))); token != "" {
		o.Header.Set("Authorization", "Bearer "+token)
	}
	return o, nil
}

// parseHeaders reads headers as a user writes them.
func parseHeaders(lines []string) (http.Header, error) {
	all := make(http.Header)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("header is %q: want NAME: VALUE", line)
		}
		all.Add(name, strings.TrimSpace(value))
	}
	return all, nil
}

// readContents is text, or what the file has that it names after an @.
func readContents(text string) (string, error) {
	name, ok := strings.CutPrefix(text, "@")
	if !ok {
		return text, nil
	}
	data, err := os.ReadFile(name)
	return string(data), err
}

// errInterrupted is the cause of the end of a call that its user has ended.
var errInterrupted = errors.New("interrupted: the call is cancelled")

// speakToServer connects to the server and runs work, while it writes on stderr what happens.
func (r *remote) speakToServer(ctx context.Context, o client.Options, stderr io.Writer, what string, work func(context.Context, *client.Client) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.timeout > 0 {
		late := time.AfterFunc(r.timeout, func() { cancel(fmt.Errorf("no result within %v: the call is cancelled", r.timeout)) })
		defer late.Stop()
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	if r.quiet {
		stderr = io.Discard
	}
	return runNarrated(stderr, what, func(say func(string)) error {
		o.Status = func(text string) { say(plainLine(text, mostLine)) }
		o.Notify = func(method string, params json.RawMessage) {
			if text := noticeText(method, params); text != "" {
				say(plainLine(text, mostLine))
			}
		}
		if o.Answer != nil {
			answer := o.Answer
			o.Answer = func(method string, params json.RawMessage) mcp.ElicitResult {
				say(plainLine(questionText(params), mostLine))
				return answer(method, params)
			}
		}
		c, err := client.Connect(ctx, o)
		if err == nil {
			defer c.Close()
			err = work(ctx, c)
		}
		return explainRemote(err, o)
	})
}

// mostLine is the longest line on standard error, in characters.
const mostLine = 2000

// silence is how long nothing may be heard of a call that runs.
const silence = 2 * time.Second

// runNarrated runs work and writes what it says, and after each silence that it still runs.
func runNarrated(w io.Writer, what string, work func(say func(string)) error) error {
	lines, done := make(chan string), make(chan error, 1)
	go func() { done <- work(func(text string) { lines <- text }) }()
	began := time.Now()
	silent := time.NewTimer(silence)
	defer silent.Stop()
	for {
		select {
		case text := <-lines:
			fmt.Fprintln(w, text)
		case now := <-silent.C:
			fmt.Fprintf(w, "waiting for %s, %v so far\n", what, now.Sub(began).Round(time.Second))
		case err := <-done:
			return err
		}
		silent.Reset(silence)
	}
}

// noticeText is a notification as a line of text: progress, and log messages from warning up. Others are "".
func noticeText(method string, params json.RawMessage) string {
	switch method {
	case mcp.NotifyProgress:
		var p struct {
			Progress, Total json.Number
			Message         string
		}
		if json.Unmarshal(params, &p) != nil {
			return ""
		}
		text := p.Progress.String()
		if p.Total != "" {
			text += " of " + p.Total.String()
		}
		if p.Message != "" {
			text += ": " + p.Message
		}
		return text
	case mcp.NotifyMessage:
		var p struct {
			Level mcp.LoggingLevel
			Data  any
		}
		if json.Unmarshal(params, &p) == nil && p.Level != mcp.LevelDebug && p.Level != mcp.LevelInfo && p.Level != mcp.LevelNotice {
			return fmt.Sprintf("%s: %v", p.Level, p.Data)
		}
	}
	return ""
}

// explainRemote makes a failure of what went wrong with a server, with what a person can do.
func explainRemote(err error, o client.Options) error {
	if err == nil || errors.Is(err, errToolFailed) {
		return err
	}
	text := err.Error()
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		if text = "the server refuses: " + text; len(e.Data) > 0 {
			text += ", " + string(e.Data)
		}
	}
	if e, ok := errors.AsType[*client.StatusError](err); ok {
		switch {
		case e.Status == http.StatusUnauthorized && o.Header.Get("Authorization") == "":
			text += ": give a token with --token or in " + tokenVariable
		case e.Status == http.StatusUnauthorized:
			text += ": it does not take this token"
		case e.Status/100 == 3:
			text += ": call it there, if you trust it with the token"
		}
	}
	return &failure{plainLine(text, mostLine), err}
}

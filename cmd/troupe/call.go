package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/internal/client"
	"github.com/troupe-run/troupe/mcp"
)

// errToolFailed says that a tool has a result, and calls it a failure. The program ends with exit code 3.
var errToolFailed = errors.New("the tool says that it failed")

func callCommand(stdout, stderr io.Writer) *cobra.Command {
	var r remote
	var answers []string
	cmd := &cobra.Command{
		Use:   "call URL TOOL [ARGUMENTS] [flags]",
		Short: "Call a tool of any MCP server",
		Long: `Calls a tool and prints the text of its result. ARGUMENTS are a JSON object, or @ and the name of a file that has it.

` + remoteHelp + `

The call goes on when its connection breaks and when the server is killed and started again, as far as the server lets it: the event stream
of a session is resumed, and a call that becomes a task (2026-07-28) is followed to its end. Ctrl-C cancels it. Questions of the server to its user are
answered with --answer, in turn; those beyond are cancelled, and shown. On standard error are progress, and log messages from warning up.

Exit codes: 0 with the tool's result, 1 if the server cannot be reached or refuses the call, or if the call is lost, 2 for a wrong command
line, 3 if the tool says that it failed (isError); its text is on standard output all the same.`,
		Example: `  troupe call http://127.0.0.1:8080/mcp echo '{"text":"hello"}'
  troupe call http://127.0.0.1:8080/mcp ask '{"question":"Tea or coffee?"}' --answer '{"answer":"tea"}'
  troupe call http://127.0.0.1:8080/mcp count '{"to":10,"delay_ms":500}' --revision 2025-11-25
  ` + tokenVariable + `=... troupe call https://mcp.example.com/mcp search @query.json --json | jq .structuredContent`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return errors.New("want the URL of a server, the name of a tool, which troupe tools URL lists, and its arguments if it needs some")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := r.options(args[0])
			if err != nil {
				return err
			}
			var arguments json.RawMessage
			if len(args) == 3 {
				text, err := readContents(args[2])
				if err != nil {
					return fmt.Errorf("arguments: %w", err)
				}
				if !isObject(text) {
					return fmt.Errorf(`arguments are %.200q: want a JSON object, such as {"name":"Ada"}`, text)
				}
				arguments = json.RawMessage(text)
			}
			given := make([]mcp.ElicitResult, len(answers))
			for i, text := range answers {
				if given[i], err = parseAnswer(text); err != nil {
					return err
				}
			}
			unanswered := 0
			o.Answer = answerInTurn(given, &unanswered)
			var result *client.Result
			err = r.speakToServer(cmd.Context(), o, stderr, args[1], func(ctx context.Context, c *client.Client) (err error) {
				result, err = c.CallTool(ctx, args[1], arguments)
				return err
			})
			if unanswered > 0 {
				fmt.Fprintf(stderr, "%d of the questions had no answer: give one for each with --answer, in their order\n", unanswered)
			}
			if err != nil {
				return err
			}
			if err := printResult(stdout, result, r.asJSON); err != nil {
				return err
			}
			if result.IsError {
				return errToolFailed
			}
			return nil
		},
	}
	r.register(cmd)
	cmd.Flags().StringArrayVar(&answers, "answer", nil, "`answer` to a question of the server: accept, decline, cancel, or a JSON object for its form; may be repeated")
	groupedHelp(cmd, append([]flagGroup{{"The call", []string{"answer"}}}, remoteFlags...))
	return cmd
}

// printResult prints the texts of a result, or all of it as JSON.
func printResult(w io.Writer, r *client.Result, asJSON bool) error {
	switch {
	case asJSON:
		return printIndented(w, r.Raw)
	case len(r.Content) == 0 && len(r.Structured) > 0:
		return printIndented(w, r.Structured)
	}
	for _, block := range r.Content {
		if _, err := fmt.Fprintln(w, printable(blockText(block))); err != nil {
			return err
		}
	}
	return nil
}

// blockText is a block of content as text. What is no text is named.
func blockText(raw json.RawMessage) string {
	var b struct {
		Type, Text, Data, MimeType, URI string
		Resource                        struct {
			URI, Text, Blob, MimeType string
		}
	}
	if json.Unmarshal(raw, &b) != nil {
		return "[content that cannot be read]"
	}
	switch {
	case b.Type == "text":
		return b.Text
	case b.Type == "resource" && b.Resource.Blob == "":
		return b.Resource.Text
	case b.Type == "resource":
		return fmt.Sprintf("[%s, %s, %d bytes]", b.Resource.URI, b.Resource.MimeType, base64.StdEncoding.DecodedLen(len(b.Resource.Blob)))
	case b.Type == "resource_link":
		return fmt.Sprintf("[%s]", b.URI)
	}
	return fmt.Sprintf("[%s, %s, %d bytes]", b.Type, b.MimeType, base64.StdEncoding.DecodedLen(len(b.Data)))
}

// printable is text of a server for a terminal, in which it moves no cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return graphic(r)
	}, text)
}

// printIndented prints JSON with a member on each line.
func printIndented(w io.Writer, raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return &failure{oneLine(err), err}
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

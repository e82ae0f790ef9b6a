package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"testing"
)

// asJSON returns settings as the argument of a program.
func asJSON(settings any) string {
	text, err := json.Marshal(settings)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// runScript runs a program that writes lines of JSON, the last of which says that it is done. hear takes the others, and may write to
// the program. It returns what the program writes to its standard error.
func runScript[line any](t *testing.T, hear func(l line, to io.Writer), command string, args ...string) (says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	var stderr bytes.Buffer
	script := exec.CommandContext(ctx, command, args...)
	script.Stderr = &stderr
	in, err1 := script.StdinPipe()
	out, err2 := script.StdoutPipe()
	if err := errors.Join(err1, err2, script.Start()); err != nil {
		t.Error(err)
		return ""
	}
	done := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var l line
		var end struct{ Done bool }
		switch err := errors.Join(json.Unmarshal(lines.Bytes(), &l), json.Unmarshal(lines.Bytes(), &end)); {
		case err != nil:
			t.Errorf("it writes %s", lines.Bytes())
		case end.Done:
			done = true
		default:
			hear(l, in)
		}
	}
	if err := script.Wait(); err != nil || !done {
		t.Errorf("%s ends with %v, all done %t, and says %s", command, err, done, &stderr)
	}
	return stderr.String()
}

// runQuietly is runScript for a program that says nothing on its standard error.
func runQuietly[line any](t *testing.T, hear func(l line, to io.Writer), command string, args ...string) {
	t.Helper()
	if says := runScript(t, hear, command, args...); says != "" {
		t.Errorf("%s says %s", command, says)
	}
}

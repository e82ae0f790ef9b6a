package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
)

// Direct has a client speak to a server over its standard input and output, with nothing between:
// it is what the client's requests go through. The server starts with the first message, and ends
// with the session. There is one request at a time, and all that the server says are answers.
type Direct struct {
	Command []string // that starts the server

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// RoundTrip does what a request is for, and makes a response of what the server says.
func (d *Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	line, err := d.exchange(r)
	if err != nil {
		return nil, err
	}
	a := &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{"Mcp-Session-Id": {"direct"}}, Body: http.NoBody, Request: r}
	if line != nil {
		a.StatusCode, a.Body, a.ContentLength = http.StatusOK, io.NopCloser(bytes.NewReader(line)), int64(len(line))
	}
	return a, nil
}

// exchange hands the server a message, and returns its answer, or has it end.
func (d *Direct) exchange(r *http.Request) (line []byte, err error) {
	if r.Method == http.MethodDelete {
		return nil, errors.Join(d.in.Close(), d.cmd.Wait())
	}
	message, err := io.ReadAll(r.Body)
	if err == nil && d.cmd == nil {
		err = d.start()
	}
	if err == nil {
		_, err = d.in.Write(append(message, '\n'))
	}
	if err != nil || !bytes.Contains(message, []byte(`"id":`)) {
		return nil, err
	}
	return d.out.ReadBytes('\n')
}

func (d *Direct) start() error {
	d.cmd = exec.Command(d.Command[0], d.Command[1:]...)
	d.cmd.Stderr = os.Stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	d.out = bufio.NewReader(out)
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return err
	}
	return d.cmd.Start()
}

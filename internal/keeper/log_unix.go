//go:build unix

package keeper

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openLog opens the log of a keeper: its standard error, which becomes the file, so that what the runtime says of a crash is there, too. Writes to a pipe
// that nobody reads any more are lost. Without a socket the keeper is a part of the program that has started it, and the standard error that they share is that one's: there it says only what is wrong.
func openLog(f flags) (*slog.Logger, error) {
	if f.log == "" {
		level := slog.LevelInfo
		if f.socket == "" {
			level = slog.LevelWarn
		}
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("part", "keeper"), nil
	}
	l := &logFile{path: f.log, begun: func(file *os.File) error { return unix.Dup2(int(file.Fd()), syscall.Stderr) }}
	if err := l.openFile(); err != nil {
		return nil, err
	}
	return slog.New(slog.NewTextHandler(l, nil)).With("part", "keeper"), nil
}

// maxLog is from where on a log is put aside, in bytes.
const maxLog = 8 << 20

// A logFile is a log that is put aside once it has grown, in place of the one before. One goroutine may use it at a time.
type logFile struct {
	path  string
	begun func(*os.File) error // called with each new file
	file  *os.File
	size  int64
}

// openFile opens the file, after the one that has grown was put aside.
func (l *logFile) openFile() error {
	if info, err := os.Stat(l.path); err == nil {
		if l.size = info.Size(); l.size > maxLog {
			_ = os.Rename(l.path, l.path+".1") // what cannot be moved grows
			l.size = 0
		}
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := l.begun(file); err != nil {
		_ = file.Close()
		return fmt.Errorf("%s: %w", l.path, err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file = file
	return nil
}

// Write implements io.Writer.
func (l *logFile) Write(text []byte) (int, error) {
	if l.size > maxLog {
		l.size = 0 // what cannot be put aside now is tried again when it has grown as much once more
		_ = l.openFile()
	}
	n, err := l.file.Write(text)
	l.size += int64(n)
	return n, err
}

package main

import (
	"io"
	"log/slog"
)

// logger returns the structured log of the settings, which check has accepted.
func (s *settings) logger(w io.Writer) *slog.Logger {
	level, _ := s.level()
	o := &slog.HandlerOptions{Level: level}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

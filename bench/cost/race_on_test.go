//go:build full && race

package main

const raceEnabled = true

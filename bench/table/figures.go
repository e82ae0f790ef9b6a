package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A row is one unit of the benchmarks that differ in nothing but the column.
type row struct {
	table, name, unit string
}

// figures are the results of all rounds, in the order in which they first appeared.
type figures struct {
	rows    []row
	columns []string
	values  map[row]map[string][]float64
}

// processors is what go test appends to a name on a machine with more than one of them.
var processors = regexp.MustCompile(`-\d+$`)

// read gathers the results of the units, or of all if there are none.
func read(r io.Reader, key string, units []string) (*figures, error) {
	f := &figures{values: map[row]map[string][]float64{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		table, name, column := split(processors.ReplaceAllString(words[0], ""), key)
		for i := 2; i+1 < len(words); i += 2 {
			v, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return nil, fmt.Errorf("table: %q has no figure in place %d", lines.Text(), i)
			}
			if units == nil || slices.Contains(units, words[i+1]) {
				f.add(row{table, name, words[i+1]}, column, v)
			}
		}
	}
	return f, lines.Err()
}

// split takes the name of a benchmark apart. A benchmark without the key has its figures in the column "-".
func split(name, key string) (table, rest, column string) {
	// A value may hold a slash itself, as encoding/json does, so it ends where the next key begins or the name ends.
	parts := strings.Split(strings.TrimPrefix(name, "Benchmark"), "/")
	var left []string
	inColumn := false
	for _, p := range parts[1:] {
		k, v, pair := strings.Cut(p, "=")
		switch {
		case pair && k == key:
			inColumn, column = true, v
		case inColumn && !pair:
			column += "/" + p
		default:
			inColumn, left = false, append(left, p)
		}
	}
	return parts[0], strings.Join(left, " "), cmp.Or(column, "-")
}

func (f *figures) add(r row, column string, v float64) {
	if f.values[r] == nil {
		f.values[r] = map[string][]float64{}
		f.rows = append(f.rows, r)
	}
	if !slices.Contains(f.columns, column) {
		f.columns = append(f.columns, column)
	}
	f.values[r][column] = append(f.values[r][column], v)
}

// write writes a table for each benchmark.
func (f *figures) write(w io.Writer) error {
	var b strings.Builder
	var seen []string
	for _, r := range f.rows {
		if slices.Contains(seen, r.table) {
			continue
		}
		seen = append(seen, r.table)
		f.table(&b, r.table)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *figures) table(b *strings.Builder, name string) {
	var rows []row
	var columns []string
	for _, r := range f.rows {
		if r.table == name {
			rows = append(rows, r)
		}
	}
	for _, c := range f.columns {
		if slices.ContainsFunc(rows, func(r row) bool { return f.values[r][c] != nil }) {
			columns = append(columns, c)
		}
	}
	fmt.Fprintf(b, "| %s | unit |", name)
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s |", r.name, r.unit)
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", spread(f.values[r][c]))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

// spread writes the median, and the least and the most if they look different.
func spread(v []float64) string {
	if len(v) == 0 {
		return ""
	}
	v = slices.Sorted(slices.Values(v))
	median := (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	least, most := number(v[0]), number(v[len(v)-1])
	if least == most {
		return number(median)
	}
	return fmt.Sprintf("%s (%s to %s)", number(median), least, most)
}

// number writes three digits, with commas between thousands.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if whole, _, _ := strings.Cut(s, "."); len(whole) >= 3 {
		s = strconv.FormatFloat(v, 'f', 0, 64)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

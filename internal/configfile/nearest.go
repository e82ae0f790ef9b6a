package configfile

import "fmt"

// Nearest says which known name is most like a name that is unknown: "; did you mean NAME?", or
// nothing where more than a third of the name would have to change.
func Nearest(name string, known []string) string {
	nearest, least := "", len(name)/3+1
	for _, k := range known {
		if d := distance(name, k); d < least {
			nearest, least = k, d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", nearest)
}

// distance is how many bytes must be put in, taken away or exchanged to make b of a. Two that have changed places count as one.
func distance(a, b string) int {
	above, row := make([]int, len(b)+1), make([]int, len(b)+1) // of the distances from what of a is read to all beginnings of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], above[j-1]+1)
			}
		}
		above, row = row, next
	}
	return row[len(b)]
}

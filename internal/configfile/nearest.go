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

// distance is how many bytes must be put in, taken away or exchanged to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the distances from what of a is read to all beginnings of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

package cmd

import "math"

// nearest is the candidate that the fewest changes of a letter make of the word, or "" if none is like it.
func nearest(word string, candidates []string) string {
	best, fewest := "", math.MaxInt
	for _, candidate := range candidates {
		if changes := distance(word, candidate); changes < fewest {
			best, fewest = candidate, changes
		}
	}
	if fewest > len(word)/3 {
		return ""
	}
	return best
}

// distance is Levenshtein's, row by row.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

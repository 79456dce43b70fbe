package term

import (
	"math"

	"github.com/agnivade/levenshtein"
)

// Nearest is the candidate that the fewest changes of a letter make of the word, or "" if none is like it.
func Nearest(word string, candidates []string) string {
	best, fewest := "", math.MaxInt
	for _, candidate := range candidates {
		if changes := levenshtein.ComputeDistance(word, candidate); changes < fewest {
			best, fewest = candidate, changes
		}
	}
	if fewest > len(word)/3 {
		return ""
	}
	return best
}

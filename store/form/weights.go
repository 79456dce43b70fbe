package form

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tasktable/tasktable/store"
)

var errWeights = errors.New("must be a name, = and a number, each name once, such as large=3")

// Weights reads weights of a limit, such as large=3. A name may have a =. It leaves out blank texts. The error is only
// the rule, without the field.
func Weights(texts []string) (store.Weights, error) {
	weights := store.Weights{}
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		at := max(strings.LastIndex(text, "="), 0)
		weight, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(text[at:], "=")))
		name := strings.TrimSpace(text[:at])
		if _, twice := weights[name]; err != nil || twice || name == "" {
			return nil, errWeights
		}
		weights[name] = weight
	}
	return weights, nil
}

// maxWeightsShown is how many weights WeightsText has. A limit may have a thousand.
const maxWeightsShown = 5

// WeightsText is weights for people, such as "large=3, small=2 and 4 more".
func WeightsText(weights store.Weights) string {
	names := slices.Sorted(maps.Keys(weights))
	shown := names[:min(len(names), maxWeightsShown)]
	texts := make([]string, len(shown))
	for i, name := range shown {
		texts[i] = fmt.Sprintf("%s=%d", name, weights[name])
	}
	text := strings.Join(texts, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

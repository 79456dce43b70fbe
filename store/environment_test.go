package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
)

func TestCheckEnvironment(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"production": true, "staging 2": true, "eu-west_1.prod": true, "x": true, strings.Repeat("x", 64): true,
		"": false, " x": false, "x ": false, "x\ny": false, "<b>": false, "-x": false, "ü": false, strings.Repeat("x", 65): false,
	} {
		if err := store.CheckEnvironment(name); (err == nil) != good || err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

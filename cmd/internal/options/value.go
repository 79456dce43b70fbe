package options

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/when"
)

// The functions of this file return functions for Option.Set. Each of these stores a value of one kind, or returns
// the rule that the value breaks as an error. The program prints the rule after the option's name.

// Text takes at most maxBytes without control characters.
func Text(into *string, maxBytes int) func(string) error {
	return func(given string) error {
		if len(given) > maxBytes || strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("must be at most %d bytes without control characters", maxBytes)
		}
		*into = given
		return nil
	}
}

// Bool takes true or false.
func Bool(into *bool) func(string) error {
	return func(given string) error {
		value, err := strconv.ParseBool(given)
		if err != nil {
			return errors.New("must be true or false")
		}
		*into = value
		return nil
	}
}

// Int takes a whole number from minimum to maximum.
func Int(into *int, minimum, maximum int) func(string) error {
	return func(given string) error {
		value, err := strconv.Atoi(given)
		if err != nil || value < minimum || value > maximum {
			return fmt.Errorf("must be a whole number from %d to %d", minimum, maximum)
		}
		*into = value
		return nil
	}
}

// Duration takes a duration from minimum to maximum. Its units may be days and weeks, too.
func Duration(into *time.Duration, minimum, maximum time.Duration) func(string) error {
	return func(given string) error {
		value, err := when.LengthBetween(given, minimum, maximum)
		if err == nil {
			*into = value
		}
		return err //nolint:wrapcheck // it is the rule
	}
}

// DurationOrOff takes a duration up to maximum, and 0 as off. It stores off as -1, because in a Config of the library
// 0 means the default.
func DurationOrOff(into *time.Duration, maximum time.Duration) func(string) error {
	set := Duration(into, 0, maximum)
	return func(given string) error {
		if err := set(given); err != nil {
			return err
		}
		if *into == 0 {
			*into = -1
		}
		return nil
	}
}

const minPeriod = time.Minute

// PeriodRule describes the values that Period takes, except off.
const PeriodRule = "a duration between 1m and 100 years, such as 30d"

// Period takes a duration of at least a minute, or off for ever. It stores off as -1. It takes no 0, because in a
// Config of the library 0 means the default.
func Period(into *time.Duration) func(string) error {
	set := Duration(into, minPeriod, store.MaxRetention)
	return func(given string) error {
		if given == "off" {
			*into = -1
			return nil
		}
		if set(given) != nil {
			return fmt.Errorf("must be off or %s", PeriodRule)
		}
		return nil
	}
}

// Checked takes a text that check accepts. rule is the rule that other texts break.
func Checked(into *string, check func(string) error, rule string) func(string) error {
	return func(given string) error {
		if check(given) != nil {
			return errors.New(rule)
		}
		*into = given
		return nil
	}
}

// OneOf takes one of the choices.
func OneOf[T ~string](into *T, choices ...T) func(string) error {
	return func(given string) error {
		if !slices.Contains(choices, T(given)) {
			return fmt.Errorf("must be one of %s", term.Join(choices, ", "))
		}
		*into = T(given)
		return nil
	}
}

// SomeOf takes one or several of the choices, separated by commas.
func SomeOf[T ~string](into *[]T, choices ...T) func(string) error {
	return Each(into, func(item string) (T, error) {
		if !slices.Contains(choices, T(item)) {
			return "", fmt.Errorf("must be of %s, one or several separated by commas", term.Join(choices, ", "))
		}
		return T(item), nil
	})
}

// Each takes one or several items, separated by commas. parse reads an item.
func Each[T any](into *[]T, parse func(item string) (T, error)) func(string) error {
	return func(given string) error {
		var found []T
		for item := range strings.SplitSeq(given, ",") {
			one, err := parse(strings.TrimSpace(item))
			if err != nil {
				return err
			}
			found = append(found, one)
		}
		*into = found
		return nil
	}
}

// EachNamed takes one or several of name=value, separated by commas, and each name once. value returns how to read a
// value. rule is the rule that everything else breaks.
func EachNamed[T any](
	into *map[string]T, check func(name string) error, value func(into *T) func(string) error, rule string,
) func(string) error {
	return func(given string) error {
		found := map[string]T{}
		for item := range strings.SplitSeq(given, ",") {
			name, text, _ := strings.Cut(strings.TrimSpace(item), "=")
			var one T
			if _, twice := found[name]; twice || check(name) != nil || value(&one)(text) != nil {
				return errors.New(rule)
			}
			found[name] = one
		}
		*into = found
		return nil
	}
}

package options

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// OneOf takes one of the choices.
func OneOf(into *string, choices ...string) func(string) error {
	return func(given string) error {
		if !slices.Contains(choices, given) {
			return fmt.Errorf("must be one of %s", strings.Join(choices, ", "))
		}
		*into = given
		return nil
	}
}

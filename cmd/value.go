package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// The functions of this file make an option's set: they keep a value of one kind, or return the rule it breaks, to be
// read behind the option's name.

func text(into *string, longest int) func(string) error {
	return func(given string) error {
		if len(given) > longest || strings.ContainsFunc(given, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("must be at most %d bytes without control characters", longest)
		}
		*into = given
		return nil
	}
}

func toggle(into *bool) func(string) error {
	return func(given string) error {
		value, err := strconv.ParseBool(given)
		if err != nil {
			return errors.New("must be true or false")
		}
		*into = value
		return nil
	}
}

func whole(into *int, least, most int) func(string) error {
	return func(given string) error {
		value, err := strconv.Atoi(given)
		if err != nil || value < least || value > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		*into = value
		return nil
	}
}

func duration(into *time.Duration, least, most time.Duration) func(string) error {
	return func(given string) error {
		value, err := time.ParseDuration(given)
		if err != nil || value < least || value > most {
			return fmt.Errorf("must be a duration from %s to %s, such as 1500ms, 90s or 1h", least, most)
		}
		*into = value
		return nil
	}
}

// durationOrOff takes 0 as off, which a Config of the library writes as -1, because there 0 is the default.
func durationOrOff(into *time.Duration, most time.Duration) func(string) error {
	set := duration(into, 0, most)
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

const leastPeriod = time.Minute

var periodRule = fmt.Sprintf("a duration from %s to %s, such as 720h", leastPeriod, store.MaxRetention)

// period takes off as for ever, which a Config of the library writes as -1. It takes no 0, which there is the default.
func period(into *time.Duration) func(string) error {
	set := duration(into, leastPeriod, store.MaxRetention)
	return func(given string) error {
		if given == "off" {
			*into = -1
			return nil
		}
		if set(given) != nil {
			return fmt.Errorf("must be off or %s", periodRule)
		}
		return nil
	}
}

func choice(into *string, choices ...string) func(string) error {
	return func(given string) error {
		if !slices.Contains(choices, given) {
			return fmt.Errorf("must be one of %s", strings.Join(choices, ", "))
		}
		*into = given
		return nil
	}
}

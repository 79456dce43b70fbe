package recurrence

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Move says what becomes of a fire on a day that is out. "" means MoveSkip.
type Move string

// The values of Move.
const (
	MoveSkip     Move = "skip"     // the fire is left out
	MoveNext     Move = "next"     // it moves to the next day that is in, at the same time of the day
	MovePrevious Move = "previous" // it moves to the previous day that is in, at the same time of the day
)

const (
	// MaxEvery is the greatest Options.Every.
	MaxEvery = 1000
	// MaxCalendars is the greatest number of calendars in Options.OutOf, and in Options.KeepTo.
	MaxCalendars = 8
	// MaxMoveDays is how many days a fire moves at most. If no day that near is in, the fire is left out.
	MaxMoveDays = 366
)

// Options are written behind an expression. They choose among the days on which the expression fires. The package's
// comment explains them. The zero Options choose all.
type Options struct {
	Every  int      // 2 to MaxEvery; 0 and 1 mean none
	From   Date     // with Every, and only with it
	OutOf  []string // names of calendars, at most MaxCalendars
	KeepTo []string // names of calendars, at most MaxCalendars
	Move   Move     // with OutOf or KeepTo, and only with them
}

// Split divides a text into the expression and the options behind it. It checks the options, but only Parse checks the
// expression and whether both go together. Every is 0 instead of 1, and Move is "" instead of skip. Errors wrap
// ErrInvalid.
func Split(text string) (expression string, o Options, err error) {
	if len(text) > MaxExpressionBytes {
		return "", o, invalid("cron", fmt.Sprintf("must be at most %d bytes", MaxExpressionBytes), text)
	}
	words := strings.Fields(text)
	first := 1 // the first word is never an option, because TZ=UTC is an error of the expression
	for first < len(words) && !strings.Contains(words[first], "=") {
		first++
	}
	if first >= len(words) {
		return text, o, nil
	}
	given := map[string]bool{}
	for _, word := range words[first:] {
		name, value, _ := strings.Cut(word, "=")
		if given[name] {
			return "", o, invalid("cron", "must have each option at most once", word)
		}
		given[name] = true
		if err := o.read(name, value, word); err != nil {
			return "", o, err
		}
	}
	if rule := o.fault(given["every"]); rule != "" {
		return "", o, invalid("cron", rule, text)
	}
	if o.Every <= 1 {
		o.Every, o.From = 0, Date{}
	}
	return strings.Join(words[:first], " "), o, nil
}

// read reads the value of one option.
func (o *Options) read(name, value, word string) (err error) {
	switch name {
	case "every":
		if o.Every, err = strconv.Atoi(value); err != nil || o.Every < 1 || o.Every > MaxEvery || value[0] == '+' {
			return invalid("cron", fmt.Sprintf("option every must be a whole number from 1 to %d", MaxEvery), value)
		}
	case "from":
		if o.From, err = ParseDate(value); err != nil {
			return invalid("cron", "option from must be a day that exists, such as 2027-01-05", value)
		}
	case "out-of":
		o.OutOf, err = readNames(name, value)
	case "keep-to":
		o.KeepTo, err = readNames(name, value)
	case "move":
		switch o.Move = Move(value); o.Move {
		case MoveNext, MovePrevious:
		case MoveSkip:
			o.Move = ""
		default:
			return invalid("cron", "option move must be skip, next or previous", value)
		}
	default:
		return invalid("cron", "must have no words behind the fields but the options every=, from=, out-of=, keep-to= "+
			"and move=", word)
	}
	return err
}

func readNames(option, value string) ([]string, error) {
	names := strings.Split(value, ",")
	if len(names) > MaxCalendars {
		rule := fmt.Sprintf("option %s must have at most %d calendars", option, MaxCalendars)
		return nil, invalid("cron", rule, strconv.Itoa(len(names)))
	}
	for i, name := range names {
		if _, built := readWorkdays(name); !built && !IsCalendarName(name) {
			return nil, invalid("cron", "option "+option+" must have names of calendars (a-z first, then also 0-9, _ "+
				"and -, at most 63 characters), workdays, or other days as workdays:mon-thu+sat", name)
		}
		if slices.Contains(names[:i], name) {
			return nil, invalid("cron", "option "+option+" must not name a calendar twice", name)
		}
	}
	return names, nil
}

// fault returns the rule that the options break together, or "".
func (o Options) fault(every bool) string {
	switch {
	case o.Every > 1 && o.From.IsZero():
		return "option every needs from, the day from which it counts"
	case !every && !o.From.IsZero():
		return "option from needs every"
	case o.Move != "" && len(o.OutOf)+len(o.KeepTo) == 0:
		return "option move needs out-of or keep-to, because otherwise no day is out"
	}
	return ""
}

// IsZero reports whether the options choose all days.
func (o Options) IsZero() bool {
	return o.Every == 0 && o.From.IsZero() && len(o.OutOf)+len(o.KeepTo) == 0 && o.Move == ""
}

// Join writes the options behind an expression, always in the same way: one space divides the words, the calendars
// are in alphabetical order, and an option that has its default is left out. The zero Options return the expression
// itself. Join checks nothing. Parse does.
func (o Options) Join(expression string) string {
	if o.IsZero() {
		return expression
	}
	words := strings.Fields(expression)
	if o.Every > 1 {
		words = append(words, "every="+strconv.Itoa(o.Every))
	}
	if o.Every != 1 && !o.From.IsZero() {
		words = append(words, "from="+o.From.String())
	}
	if len(o.OutOf) > 0 {
		words = append(words, "out-of="+strings.Join(slices.Sorted(slices.Values(o.OutOf)), ","))
	}
	if len(o.KeepTo) > 0 {
		words = append(words, "keep-to="+strings.Join(slices.Sorted(slices.Values(o.KeepTo)), ","))
	}
	if o.Move != "" && o.Move != MoveSkip {
		words = append(words, "move="+string(o.Move))
	}
	return strings.Join(words, " ")
}

package dashboard

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store/inspect"
)

// told is a sentence, and how good or bad the news is.
type told struct {
	Tone   string // good, bad, warn, busy, or ""
	Pieces []valueView
}

// whyView tells why a task does not run, or that it ran.
type whyView struct {
	Code     string
	Sentence told
	Detail   blockView // the last error, if it is too long for the sentence
	More     []told
	Next     []inspect.Upcoming
}

// tones has the tone of each code of a reason. The others have none, because they are no news.
var tones = map[string]string{
	"completed": "good", "failed": "bad", "expired": "bad", "expires": "bad", "lapsed": "warn",
	"no_node": "bad", "no_worker": "bad", "no_type": "bad", "no_queue": "bad", "no_both": "bad", "no_leader": "bad",
	"paused": "warn", "paused_scope": "warn", "retry": "warn",
	"running": "busy", "edited": "busy", "in_line": "busy", "limited": "busy", "firing": "busy", "planning": "busy",
}

const (
	maxDetail      = 200 // the greatest length of an error that stands in the sentence
	maxDetailLines = 6   // of a longer one that are shown at once
)

// whyOf makes sentences of an explanation: one of the reason, and one of each circumstance.
func whyOf(e inspect.Explanation) whyView {
	r := e.Reason
	w := whyView{Code: r.Code, Next: e.Next}
	main := inspect.Reason{
		Code: r.Code, Text: r.Text, Detail: r.Detail, Since: r.Since, Until: r.Until, Further: r.Further,
	}
	if detail := strings.TrimSpace(r.Detail); len(detail) > maxDetail || strings.Contains(detail, "\n") {
		main.Detail, w.Detail = "", blockOf(detail, maxDetailLines)
	}
	w.Sentence = told{tones[r.Code], sentenceOf(main)}
	if w.Sentence.Tone == "" && (r.Obstacle != "" || r.Trouble != nil) {
		w.Sentence.Tone = "warn"
	}
	for _, one := range []struct {
		given  bool
		tone   string
		reason inspect.Reason
	}{
		{r.Late != nil, "warn", inspect.Reason{Late: r.Late}},
		{r.Obstacle != "", "warn", inspect.Reason{Obstacle: r.Obstacle}},
		{r.Elsewhere != "", "", inspect.Reason{Elsewhere: r.Elsewhere}},
		{r.Trouble != nil, "bad", inspect.Reason{Trouble: r.Trouble}},
		{r.FollowUp != "", followUpTone(r.FollowUp), inspect.Reason{FollowUp: r.FollowUp}},
	} {
		if one.given {
			w.More = append(w.More, told{one.tone, sentenceOf(one.reason)})
		}
	}
	return w
}

// followUpTone is "" while the follow-up may still run.
func followUpTone(text string) string {
	if strings.Contains(text, ") is FAILED") || strings.Contains(text, ") is EXPIRED") {
		return "bad"
	}
	return ""
}

// sentenceOf is the sentence of a reason, with its times apart from its texts. Sentence writes times as texts, so this
// gives it marks in their place. A mark begins and ends with NUL, which no text in Postgres has.
func sentenceOf(r inspect.Reason) (sentence []valueView) {
	var times []time.Time
	text := r.Sentence(func(at time.Time) string {
		times = append(times, at)
		return "\x00" + strconv.Itoa(len(times)-1) + "\x00"
	})
	text = upper(strings.TrimPrefix(text, "; "))
	for i, part := range strings.Split(text, "\x00") {
		number, err := strconv.Atoi(part)
		switch {
		case i%2 == 1 && err == nil && number < len(times):
			sentence = append(sentence, valueView{At: &times[number]})
		case part != "":
			sentence = append(sentence, valueView{Text: part})
		}
	}
	last, _ := utf8.DecodeLastRuneInString(text)
	if !strings.ContainsRune(".…!?", last) {
		sentence = append(sentence, valueView{Text: "."})
	}
	return sentence
}

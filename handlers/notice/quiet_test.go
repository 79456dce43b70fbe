package notice_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
)

// The end of quiet hours is an instant of local time, also over the changes of the clocks: in Berlin at 01:00 UTC on
// 2035-03-25 and on 2035-10-28.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	b := newBench(t, newReceiver(t).target(notice.KindNtfy))
	for _, c := range []struct{ from, to, zone, at, want string }{
		{"22:00", "07:00", "UTC", "2035-05-01T21:59:59Z", ""},
		{"22:00", "07:00", "UTC", "2035-05-01T22:00:00Z", "2035-05-02T07:00:00Z"},
		{"22:00", "07:00", "UTC", "2035-05-02T06:59:59Z", "2035-05-02T07:00:00Z"},
		{"22:00", "07:00", "UTC", "2035-05-02T07:00:00Z", ""},
		{"12:00", "13:00", "UTC", "2035-05-02T12:30:00Z", "2035-05-02T13:00:00Z"},
		{"12:00", "13:00", "Asia/Kolkata", "2035-05-02T07:00:00Z", "2035-05-02T07:30:00Z"},
		// The night of spring is an hour shorter, and that of autumn an hour longer.
		{"22:00", "07:00", "Europe/Berlin", "2035-03-24T21:00:00Z", "2035-03-25T05:00:00Z"},
		{"22:00", "07:00", "Europe/Berlin", "2035-03-25T04:59:59Z", "2035-03-25T05:00:00Z"},
		{"22:00", "07:00", "Europe/Berlin", "2035-03-25T05:00:00Z", ""},
		{"22:00", "07:00", "Europe/Berlin", "2035-10-27T20:00:00Z", "2035-10-28T06:00:00Z"},
		{"22:00", "07:00", "Europe/Berlin", "2035-10-28T05:59:59Z", "2035-10-28T06:00:00Z"},
		{"22:00", "07:00", "Europe/Berlin", "2035-10-28T06:00:00Z", ""},
		// 02:30 does not exist in spring, and exists twice in autumn.
		{"22:00", "02:30", "Europe/Berlin", "2035-03-25T00:59:00Z", "2035-03-25T01:30:00Z"},
		{"22:00", "02:30", "Europe/Berlin", "2035-10-28T00:45:00Z", "2035-10-28T01:30:00Z"},
		{"22:00", "02:30", "Europe/Berlin", "2035-10-28T01:15:00Z", "2035-10-28T01:30:00Z"},
		{"22:00", "02:30", "Europe/Berlin", "2035-10-28T01:30:00Z", ""},
	} {
		got := b.rows(`SELECT coalesce(to_char(tasktable.quiet_until($1::text::timestamptz, $2::text::time, $3::text::time,
			$4) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')`, c.at, c.from, c.to, c.zone)
		b.want(c.at+" in "+c.from+"-"+c.to+" "+c.zone, got, c.want)
	}
}

// What happens in quiet hours is one notice at their end, even of a rule without a digest. The hours of a recipient
// count before those of the rule.
func TestQuietHoursOfARule(t *testing.T) {
	t.Parallel()
	night := time.Date(2035, 5, 1, 23, 0, 0, 0, time.UTC)
	for _, digest := range []time.Duration{rules.AtOnce, time.Minute} {
		r := newReceiver(t)
		b := newBench(t, r.target(notice.KindNtfy))
		b.recipient(rules.Recipient{Name: "owl", Target: "ops", Quiet: &rules.Quiet{From: "08:00", To: "12:00", Zone: "UTC"}})
		b.rule(rules.Rule{Digest: digest, Recipients: []string{"ops", "owl"},
			Quiet: &rules.Quiet{From: "22:00", To: "07:00", Zone: "UTC"}}, "")
		b.failing(night, "one")
		b.failing(night.Add(time.Hour), "two")
		b.run(night)
		b.run(night.Add(time.Hour + time.Minute))
		if n := len(r.got()); n < 1 || n > 2 { // to the owl; with a digest its second window has not ended yet
			t.Fatalf("%d messages in the night", n)
		}
		b.run(night.Add(2 * time.Hour))
		if n := len(r.got()); n != 2 {
			t.Fatalf("%d messages in the night", n)
		}
		b.run(night.Add(8 * time.Hour))
		got := b.rows(`SELECT id::text || ' ' || status FROM tasktable.scheduled_tasks WHERE id LIKE 'notice/dead/ops/%'`)
		b.want("notices", got, "notice/dead/ops/2035-05-02T07:00:00Z COMPLETED")
		if n := len(r.got()); n != 3 {
			t.Errorf("%d messages", n)
		}
	}
}

// A notice whose retry falls into quiet hours waits for their end, and uses up no attempt.
func TestARetryWaitsForTheEndOfQuietHours(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, 500)
	b := newBench(t, r.target(notice.KindNtfy))
	b.rule(rules.Rule{}, "")
	b.failing(nine, "one")
	b.run(nine)
	b.run(nine.Add(time.Minute))
	b.recipient(rules.Recipient{Name: "ops", Target: "ops", Quiet: &rules.Quiet{From: "09:00", To: "10:00", Zone: "UTC"}})
	if ran := b.run(nine.Add(2 * time.Minute)); len(ran) != 1 || ran[0].Outcome != "SNOOZED" {
		t.Fatalf("ran %+v", ran)
	}
	if ran := b.run(nine.Add(time.Hour - time.Second)); len(ran) != 0 {
		t.Errorf("ran %+v", ran)
	}
	if ran := b.run(nine.Add(time.Hour)); len(ran) != 1 || ran[0].Outcome != "COMPLETED" || ran[0].Attempt != 2 {
		t.Errorf("ran %+v", ran)
	}
}

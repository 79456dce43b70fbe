package recurrence

import (
	"testing"
	"time"
)

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, expression, zone string }{
		{"every", "@every 90s", ""},
		{"quarter", "*/15 * * * *", "UTC"},
		{"quarter-zone", "*/15 * * * *", "Europe/Berlin"},
		{"daily", "30 2 * * *", "Europe/Berlin"},
		{"second", "* * * * * *", "America/New_York"},
		{"yearly", "@yearly", "Australia/Lord_Howe"},
		{"leap-day-wild", "* * 29 2 *", "Africa/Casablanca"},
		{"leap-day", "59 59 23 29 2 *", "America/New_York"},
	} {
		b.Run(c.name, func(b *testing.B) {
			rule := mustParse(b, c.expression, c.zone)
			at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for b.Loop() {
				rule.Next(at)
			}
		})
	}
}

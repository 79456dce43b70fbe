package words

import (
	"testing"

	"github.com/tasktable/tasktable/store/recurrence"
)

func TestCronWords(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"@daily": "at 00:00 every day", "@every 90s": "every 1m30s", "@every 2h": "every 2h", "@every 10s": "every 10s",
		"@hourly": "every hour", "@Weekly": "at 00:00 on Sunday",
		"* * * * *": "every minute", "*/15 * * * *": "every 15 minutes", "0/15 * * * *": "every 15 minutes",
		"*/45 * * * *": "", "0 * * * *": "every hour", "5 * * * *": "every hour at minute 5",
		"0 */6 * * *": "every 6 hours", "30 */5 * * *": "", "10,40 * * * *": "at the minutes 10 and 40 of every hour",
		"0 3 * * *": "at 03:00 every day", "30 9,12,17 * * *": "at 09:30, 12:30 and 17:30 every day",
		"0 9-17 * * MON-FRI": "every hour from 09:00 to 17:00 on Monday to Friday",
		"*/10 9-17 * * *":    "every 10 minutes in the hours 09 to 17",
		"* 15 * * *":         "every minute in the hour 15",
		"0 9 * * 1":          "at 09:00 on Monday", "0 9 * * 7": "at 09:00 on Sunday",
		"0 9 * * SAT,SUN": "at 09:00 on Saturday and Sunday",
		"0 6 1 * *":       "at 06:00 on day 1 of the month", "0 6 1,15 * *": "at 06:00 on days 1 and 15 of the month",
		"0 6 1-7 * *": "at 06:00 on days 1 to 7 of the month", "0 6 L * *": "at 06:00 on the last day of the month",
		"0 6 L-3 * *":     "at 06:00 3 days before the last of the month",
		"0 6 15W * *":     "at 06:00 on the weekday nearest to day 15 of the month",
		"0 6 LW * *":      "at 06:00 on the last weekday of the month",
		"0 6 * * FRIL":    "at 06:00 on the last Friday of the month",
		"0 6 * * 5#2":     "at 06:00 on the second Friday of the month",
		"0 6 13 * FRI":    "at 06:00 on day 13 of the month or on Friday",
		"0 0 1 JAN,JUL *": "at 00:00 on day 1 of the month in January and July",
		"0 0 1 */3 *":     "", "30 0 3 * * *": "",
		"*/30 * * * * *": "every 30 seconds", "0 */5 * * * *": "every 5 minutes",
		"0 9 * * TUE every=2 from=2027-01-05 out-of=company": "at 09:00 on Tuesday, every=2 from=2027-01-05 out-of=company",
		"0 8 */2 * * keep-to=workdays":                       "",
		"0 8 */2 * *":                                        "", "1,2,3,4,5,6,7 * * * *": "",
	} {
		if _, err := recurrence.Parse(expression, ""); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		if got := Cron(expression); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

package inspect

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// The leader's plan and the expression give the same number. Without a last fire, missed asks the expression.
func TestMissedByPlanAndByExpression(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 11))
	begin := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC) // the clocks change on the 29th
	shortcuts := 0
	for range 5000 {
		cron := []string{"0 * * * *", "*/7 * * * *", "30 2 * * *", "@every 50m", "0 9 * * MON"}[random.IntN(5)]
		zone := []string{"UTC", "Europe/Berlin"}[random.IntN(2)]
		rule, err := recurrence.Parse(cron, zone)
		if err != nil {
			t.Fatal(err)
		}
		at := func() time.Time { return begin.Add(time.Duration(random.Int64N(int64(100 * time.Hour)))) }
		task := RecurringTask{Cron: cron, TimeZone: zone, StartsAt: begin}
		last := rule.Anchored(begin).Next(at())
		next, success, edited := rule.Anchored(begin).Next(last), at(), at()
		task.LastFire, task.NextFire, task.LastSuccess = &last, &next, &success
		if random.IntN(2) == 0 {
			task.ExpectedSince = &edited
		}
		task.ReadAt, task.Allowance = at(), time.Duration(random.Int64N(int64(time.Hour)))
		byPlan := task.missed()
		if !success.Before(last) && next.After(task.ReadAt.Add(-task.Allowance)) {
			shortcuts++
		}
		task.LastFire = nil
		if byExpression := task.missed(); byPlan != byExpression {
			t.Fatalf("%+v: %d by the plan, %d by the expression", task, byPlan, byExpression)
		}
	}
	if shortcuts < 100 {
		t.Errorf("the plan decided %d times", shortcuts)
	}
}

package fireplan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

// simulation is a recurring task whose calendar somebody edits now and then, as the leader and the trigger of the
// calendars see it.
type simulation struct {
	t      *testing.T
	cron   string
	plain  *recurrence.Rule // of the expression without the calendar
	rule   *recurrence.Rule // by the days that are out now
	out    map[recurrence.Date]bool
	task   Task
	fired  []time.Time
	covers map[recurrence.Date]bool // the days of the expression whose fires have come, at whatever time
}

func parsed(t *testing.T, cron string) *recurrence.Rule {
	t.Helper()
	rule, err := recurrence.Parse(cron, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// decide makes the rule of the days that are out.
func (s *simulation) decide() {
	s.t.Helper()
	var spans []recurrence.Span
	for day, out := range s.out {
		if out {
			spans = append(spans, recurrence.Span{From: day, To: day})
		}
	}
	days, err := recurrence.NewDays(spans)
	if err != nil {
		s.t.Fatal(err)
	}
	s.rule = parsed(s.t, s.cron).With(map[string]recurrence.Days{"company": days})
}

// look is a pass of the leader.
func (s *simulation) look(now time.Time) {
	s.t.Helper()
	r := s.task
	s.merge(r.Now, now)
	r.Now = now
	for !r.Planned || !r.NextFire.After(now) {
		planned := r.Move(s.rule, "zone")
		plan := r.List(planned, nil).Decide("", 100)
		for _, one := range plan.Fires {
			if one.Skip == "" {
				s.fire(one.At, planned)
			}
		}
		r.LastFire, r.NextFire, r.Planned, r.MovedFrom = plan.Last, plan.Next, true, nil
		r.PlannedWall, r.PlannedZoneData = new(planned.Wall(plan.Next)), new("zone")
		r.PlannedDay = plan.Undecided(r, planned)
	}
	s.task = r
}

// fire notes the days whose fires come at an instant. One of them must be new.
func (s *simulation) fire(at time.Time, rule *recurrence.Rule) {
	s.t.Helper()
	if slices.ContainsFunc(s.fired, at.Equal) {
		s.t.Errorf("%s: %s fires twice", s.cron, at)
	}
	s.fired = append(s.fired, at)
	fresh := false
	sources, _ := s.plain.Between(at.AddDate(0, 0, -20), at.AddDate(0, 0, 20), 100)
	for _, source := range sources {
		day := recurrence.DateOf(source)
		if !s.covers[day] && (source.Equal(at) || rule.Moves() && s.movesTo(day).Equal(at)) {
			fresh, s.covers[day] = true, true
		}
	}
	if !fresh {
		s.t.Errorf("%s: %s fires again", s.cron, at)
	}
}

// movesTo is the time to which the days that are out now move the fire of a day.
func (s *simulation) movesTo(day recurrence.Date) time.Time {
	at := time.Date(day.Year, day.Month, day.Day, 9, 0, 0, 0, time.UTC)
	step := 1
	if s.cron[len(s.cron)-len("previous"):] == "previous" {
		step = -1
	}
	for s.out[recurrence.DateOf(at)] {
		at = at.AddDate(0, 0, step)
	}
	return at
}

// merge notes the fires that move to the last one that has come, or to a time before it.
func (s *simulation) merge(from, to time.Time) {
	for at := from.Truncate(24 * time.Hour).Add(9 * time.Hour); !at.After(to); at = at.AddDate(0, 0, 1) {
		day, last := recurrence.DateOf(at), s.task.LastFire
		if at.After(from) && last != nil && !s.movesTo(day).After(*last) {
			s.covers[day] = true
		}
	}
}

// edit changes some days, as the trigger of the calendars notes it.
func (s *simulation) edit(random *rand.Rand, now time.Time) {
	if _, edited := s.task.Edit(); !edited { // later ones are decided by the days that hold when the leader looks
		s.merge(s.task.Now, now)
	}
	for range 1 + random.IntN(4) {
		day := recurrence.DateOf(now.AddDate(0, 0, random.IntN(9)))
		s.out[day] = !s.out[day]
	}
	s.decide()
	if s.task.Planned {
		if _, edited := s.task.Edit(); !edited {
			s.task.PlannedZoneData = new("calendar company " + s.task.NextFire.Format(time.RFC3339Nano))
		}
		if now.Before(s.task.NextFire) {
			s.task.NextFire = now
		}
	}
}

// Whatever days somebody makes in or out, the fire of a day comes once: no occurrence is made again, and a fire that
// moves is not lost.
func TestEditsOfCalendarsNeitherLoseNorRepeatFires(t *testing.T) {
	t.Parallel()
	begins := time.Date(2027, time.January, 1, 0, 30, 0, 0, time.UTC)
	random := rand.New(rand.NewPCG(27, 27))
	for run := range 150 {
		weekly := run%2 == 0
		plain := "0 9 * * *"
		if weekly {
			plain = "0 9 * * 5"
		}
		cron := plain + " out-of=company move=" + []string{"skip", "next", "previous"}[run/2%3]
		s := &simulation{t: t, cron: cron, plain: parsed(t, plain), out: map[recurrence.Date]bool{},
			covers: map[recurrence.Date]bool{}}
		s.decide()
		s.task = Task{
			ID: "nightly", Cron: cron, TimeZone: "UTC", CatchUp: "all", CatchUpPaused: "all", CatchUpLimit: 1000,
			Overlap: "allow", ScheduledAt: begins, NextFire: begins, Now: begins, Rests: true,
		}
		end := begins.AddDate(0, 0, 90)
		edits := map[recurrence.Date]bool{}
		for now := begins; now.Before(end); now = now.Add(time.Duration(1+random.IntN(9)) * time.Hour) {
			if random.IntN(6) == 0 {
				s.edit(random, now)
				edits[recurrence.DateOf(now)] = true
			}
			if random.IntN(3) > 0 {
				s.look(now)
			}
		}
		s.look(end)
		if !s.task.Planned || len(edits) == 0 {
			t.Fatal("nothing was edited or planned")
		}
		if cron[len(cron)-len("skip"):] == "skip" {
			continue // which days fire depends on when they were in
		}
		wanted, _ := s.plain.Between(begins.AddDate(0, 0, 14), end.AddDate(0, 0, -14), 100)
		for _, at := range wanted {
			if !s.covers[recurrence.DateOf(at)] {
				t.Errorf("run %d, %s: the fire of %s is lost: %s", run, cron, at.Format(time.DateOnly), fmt.Sprint(s.fired))
			}
		}
		if t.Failed() {
			return
		}
	}
}

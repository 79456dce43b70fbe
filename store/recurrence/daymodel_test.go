package recurrence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A second implementation of the options, which shares nothing with the package: it reads the expression by plan, and
// walks day by day. Each day of the expression is asked where its fires go.

type dayModel struct {
	plan
	every     int
	from      int64 // a day's number: its Unix seconds divided by 86400
	out, keep []func(day int64) bool
	move      string
	clocks    []int64 // seconds of a day
	zone      *zoneModel
	dates     map[int64]bool // what source has answered
}

// zoneModel is the offsets of a zone, found by asking for each hour.
type zoneModel struct{ segments []segment }

type segment struct{ start, end, offset int64 }

const modelDay = 86400

var zoneModels sync.Map

func zoneModelOf(t testing.TB, name string) *zoneModel {
	if known, ok := zoneModels.Load(name); ok {
		return known.(*zoneModel)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	offset := func(at int64) int64 {
		_, seconds := time.Unix(at, 0).In(location).Zone()
		return int64(seconds)
	}
	zone := &zoneModel{}
	from, to := utc("2021-01-01T00:00:00Z"), utc("2044-01-01T00:00:00Z")
	last := segment{start: from, offset: offset(from)}
	for at := from; at < to; at += 1800 { // clocks change at whole half hours of UTC
		if now := offset(at); now != last.offset {
			last.end = at
			zone.segments = append(zone.segments, last)
			last = segment{start: at, offset: now}
		}
	}
	last.end = to
	zone.segments = append(zone.segments, last)
	zoneModels.Store(name, zone)
	return zone
}

// shown returns the instants at which the clocks show a wall time, and the first at which they have reached it.
func (z *zoneModel) shown(wall int64) (instants []int64, reached int64) {
	for _, s := range z.segments {
		at := wall - s.offset
		if at >= s.start && at < s.end {
			instants = append(instants, at)
		}
		if reached == 0 && at < s.end {
			reached = max(at, s.start)
		}
	}
	return instants, reached
}

// at returns the instants of a wall time at which the expression fires.
func (m *dayModel) at(wall int64) []int64 {
	instants, reached := m.zone.shown(wall)
	if m.wild {
		return instants
	}
	return []int64{reached}
}

// source reports whether the expression and every have a day.
func (m *dayModel) source(day int64) bool {
	answer, known := m.dates[day]
	if !known {
		answer = m.readSource(day)
		m.dates[day] = answer
	}
	return answer
}

func (m *dayModel) readSource(day int64) bool {
	date := time.Unix(day*modelDay, 0).UTC()
	if !m.onDay(date) {
		return false
	}
	if m.every < 2 {
		return true
	}
	from := time.Unix(m.from*modelDay, 0).UTC()
	if date.Before(from) {
		return false
	}
	monday := func(d time.Time) time.Time {
		for d.Weekday() != time.Monday {
			d = d.AddDate(0, 0, -1)
		}
		return d
	}
	units := int(date.Sub(from).Hours()) / 24
	switch {
	case m.dow && !m.dom:
		units = int(monday(date).Sub(monday(from)).Hours()) / 24 / 7
	case m.dom || m.months:
		units = (date.Year()-from.Year())*12 + int(date.Month()) - int(from.Month())
	}
	return units%m.every == 0
}

func (m *dayModel) in(day int64) bool {
	for _, has := range m.out {
		if has(day) {
			return false
		}
	}
	for _, has := range m.keep {
		if !has(day) {
			return false
		}
	}
	return true
}

// goes returns the day to which the fires of a day go.
func (m *dayModel) goes(day int64) (to int64, found bool) {
	step := map[string]int64{"next": 1, "previous": -1}[m.move]
	for to = day; to-day <= 366 && day-to <= 366; to += step {
		if m.in(to) && (m.every < 2 || to >= m.from) {
			return to, true
		}
		if step == 0 {
			break
		}
	}
	return 0, false
}

// fires lists the fires with from < At <= to, and those left out, in order.
func (m *dayModel) fires(from, to int64) (all []Fire) {
	first, last := from/modelDay-2, to/modelDay+2
	taken := map[int64]int64{} // the source of each day that has fires: itself, or the nearest
	for day := first - 367; day <= last+367; day++ {
		if !m.source(day) {
			continue
		}
		if goes, ok := m.goes(day); ok {
			if other, ok := taken[goes]; !ok || max(goes-day, day-goes) < max(goes-other, other-goes) {
				taken[goes] = day
			}
		}
	}
	seen := map[int64]bool{}
	add := func(wall int64, fire Fire, set func(*Fire, time.Time)) {
		for _, at := range m.at(wall) {
			if from < at && at <= to && (fire.LeftOut || !seen[at]) {
				seen[at] = seen[at] || !fire.LeftOut
				one := fire
				set(&one, time.Unix(at, 0).UTC())
				all = append(all, one)
			}
		}
	}
	for day := first; day <= last; day++ {
		if source, ok := taken[day]; ok {
			for _, clock := range m.clocks {
				_, reached := m.zone.shown(source*modelDay + clock)
				fire := Fire{From: time.Unix(reached, 0).UTC(), Moved: source != day}
				if fire.Moved {
					fire.Why = stamp(source * modelDay)[:10]
				}
				add(day*modelDay+clock, fire, func(f *Fire, at time.Time) {
					if f.At = at; !f.Moved {
						f.From = at
					}
				})
			}
		}
		if goes, ok := m.goes(day); m.source(day) && (!ok || taken[goes] != day) {
			before := len(all)
			for _, clock := range m.clocks {
				fire := Fire{LeftOut: true, Why: stamp(day * modelDay)[:10]}
				add(day*modelDay+clock, fire, func(f *Fire, at time.Time) { f.From = at })
			}
			slices.SortFunc(all[before:], func(a, b Fire) int { return a.From.Compare(b.From) })
			all = append(all[:before], slices.Compact(all[before:])...)
		}
	}
	slices.SortStableFunc(all, func(a, b Fire) int { return a.When().Compare(b.When()) })
	return all
}

// cases makes random rules with the model of each.
type cases struct {
	*rand.Rand
	t *testing.T
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

var modelZones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Santiago", "Pacific/Auckland",
}

// randomCase returns the text of a rule, its days, its model, and a stretch of time.
func (c cases) randomCase() (text, zone string, days map[string]Days, m *dayModel, from, to int64) {
	clock := pick(c.Rand, "0 9", "0 9", "0 0", "30 2", "30 2", "59 23", "45 1,23", "0,30 0-3", "*/30 0-3", "30 */6", "15 2-3",
		"30 0 12", "*/30 5 2", "*/30 22,23",
		"0 */4", "0,30 22-23")
	dom := pick(c.Rand, "*", "*", "*", "*", "1", "31", "L", "L-1", "15W", "LW", "28-3", "13,29", "*/2", "1/7")
	month := pick(c.Rand, "*", "*", "*", "*", "*", "2", "1,4,7,10", "NOV-FEB")
	dow := pick(c.Rand, "*", "*", "*", "MON-FRI", "TUE", "SAT,SUN", "5L", "MON#1", "7")
	zone = pick(c.Rand, modelZones...)
	expression := strings.Join([]string{clock, dom, month, dow}, " ")
	m = &dayModel{plan: planOf(expression, 0), zone: zoneModelOf(c.t, zone), dates: map[int64]bool{}}
	for hour := range m.fields[2] {
		for minute := range m.fields[1] {
			for second := range m.fields[0] {
				m.clocks = append(m.clocks, int64(hour*3600+minute*60+second))
			}
		}
	}
	slices.Sort(m.clocks)
	start := utc("2024-01-01T00:00:00Z") + c.Int64N(16*366*modelDay)
	length := pick(c.Rand, int64(3), 20, 60, 400)
	if len(m.clocks) > 3 {
		length = min(length, 30)
	}
	from, to = start, start+length*modelDay
	options := Options{}
	if c.IntN(3) == 0 && (!m.dom || !m.dow) {
		m.every = 2 + c.IntN(4)
		if c.IntN(10) == 0 {
			m.every = 30 + c.IntN(40)
		}
		m.from = start/modelDay - c.Int64N(300) + 20
		options.Every, options.From = m.every, DateOf(time.Unix(m.from*modelDay, 0).UTC())
	}
	days = map[string]Days{}
	for _, name := range []string{"a", "b-1", "c_"} {
		if c.IntN(3) == 0 {
			list := c.randomSpans(start / modelDay)
			days[name], m.out = c.daysOf(list), append(m.out, setOf(list))
			options.OutOf = append(options.OutOf, name)
		}
	}
	if c.IntN(4) == 0 {
		var list []Span // nearly all days, with gaps
		for day := start/modelDay - 900; day < start/modelDay+1400; {
			length := 1 + c.Int64N(60)
			list = append(list, Span{From: dateOfModel(day), To: dateOfModel(day + length - 1)})
			day += length + c.Int64N(12)
			if c.IntN(40) == 0 {
				day += 380
			}
		}
		days["kept"], m.keep = c.daysOf(list), append(m.keep, setOf(list))
		options.KeepTo = append(options.KeepTo, "kept")
	}
	if c.IntN(3) == 0 {
		name := pick(c.Rand, "workdays", "workdays:mon-thu+sat", "workdays:sat-mon", "workdays:wed")
		within := map[string]string{
			"workdays": "MonTueWedThuFri", "workdays:mon-thu+sat": "MonTueWedThuSat", "workdays:sat-mon": "SatSunMon",
			"workdays:wed": "Wed",
		}[name]
		week := func(day int64) bool {
			return strings.Contains(within, time.Unix(day*modelDay, 0).UTC().Weekday().String()[:3])
		}
		if c.IntN(3) == 0 {
			options.OutOf, m.out = append(options.OutOf, name), append(m.out, week)
		} else {
			options.KeepTo, m.keep = append(options.KeepTo, name), append(m.keep, week)
		}
	}
	if len(m.out)+len(m.keep) > 0 {
		m.move = pick(c.Rand, "skip", "next", "next", "previous", "previous")
		options.Move = Move(m.move)
	}
	return options.Join(expression), zone, days, m, from, to
}

func (c cases) randomSpans(around int64) (list []Span) {
	for range c.IntN(30) {
		from := around - 500 + c.Int64N(1300)
		length := c.Int64N(6)
		switch c.IntN(20) {
		case 0:
			length = c.Int64N(100)
		case 1:
			length = 300 + c.Int64N(200)
		}
		list = append(list, Span{From: dateOfModel(from), To: dateOfModel(from + length)})
	}
	return list
}

func dateOfModel(day int64) Date { return DateOf(time.Unix(day*modelDay, 0).UTC()) }

func (c cases) daysOf(spans []Span) Days {
	days, err := NewDays(spans)
	if err != nil {
		c.t.Fatal(err)
	}
	return days
}

func setOf(spans []Span) func(day int64) bool {
	set := make([]bool, 30_000) // until 2052
	for _, span := range spans {
		last := time.Date(span.To.Year, span.To.Month, span.To.Day, 0, 0, 0, 0, time.UTC)
		for at := time.Date(span.From.Year, span.From.Month, span.From.Day, 0, 0, 0, 0, time.UTC); !at.After(last); {
			set[at.Unix()/modelDay] = true
			at = at.AddDate(0, 0, 1)
		}
	}
	return func(day int64) bool { return set[day] }
}

// TestAgainstDayModel compares Next, Between, Last and Explain with the model on random rules and calendars in 2024 to
// 2040.
func TestAgainstDayModel(t *testing.T) {
	t.Parallel()
	const workers, rules = 4, 4_000
	for worker := range workers {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			c := cases{rand.New(rand.NewPCG(27, uint64(worker))), t}
			var fires, moved, leftOut, refused int
			for range rules / workers {
				text, zone, days, m, from, to := c.randomCase()
				want := m.fires(from, to)
				rule, err := Parse(text, zone)
				if err != nil {
					if refused++; slices.ContainsFunc(want, func(f Fire) bool { return !f.LeftOut }) {
						t.Errorf("%s: %v", text, err)
					}
					continue
				}
				c.check(text+" in "+zone, rule.With(days), from, to, want)
				for _, fire := range want {
					fires++
					if fire.Moved {
						moved++
					}
					if fire.LeftOut {
						leftOut++
					}
				}
			}
			if fires < rules || moved < rules/50 || leftOut < rules/10 || refused > rules/100 {
				t.Errorf("%d fires, %d of them moved, %d left out, %d rules refused", fires, moved, leftOut, refused)
			}
		})
	}
}

func (c cases) check(text string, rule *Rule, from, to int64, want []Fire) {
	c.t.Helper()
	start, end := time.Unix(from, 0), time.Unix(to, 0)
	var times []time.Time
	for _, fire := range want {
		if !fire.LeftOut {
			times = append(times, fire.At)
		}
	}
	checkFires(c.t, c.Rand, rule, from, to, seconds(times))
	most := len(want)
	if c.IntN(2) == 0 {
		most = c.IntN(len(want) + 1)
	}
	fires, more := rule.Explain(start, end, most)
	if more != (most < len(want)) || len(fires) != most {
		c.t.Fatalf("%s: explained %d of %d, want %d, more %t", text, len(fires), len(want), most, more)
	}
	for i, fire := range fires {
		why := fire.Why
		if fire.Why = why[:min(len(why), 10)]; fire != want[i] {
			c.t.Fatalf("%s: explained %d from %s: got\n%+v %s, want\n%+v", text, i, stamp(from), fire, why, want[i])
		}
	}
}

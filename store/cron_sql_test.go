package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
	"github.com/tasktable/tasktable/store/storetest"
)

// cronCorpus has expressions that are good, and some that nearly are.
var cronCorpus = []string{
	"* * * * *", "0 0 * * * *", "  5  4 * * ?  ", "*/15 0-6,20-23 1,15 JAN-jun,12 Mon-FRI", "00 09 01 01 00",
	"*/60 */24 */31 */12 */7", "*/61 * * * *", "* */25 * * *", "* * */32 * *", "* * * */13 *", "* * * * */8",
	"*/0 * * * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 1 13 *", "0 0 1 0 *", "0 9 * * 7",
	"0 9 * * 8", "0 9 * * 7-2", "0 9 * * FRI-MON", "0 22-2 * * *", "50-10/15 * * * *", "0 9 * * MONDAY,tue,Wednesday",
	"0 9 * * TUES", "0 9 1 SEPT *",
	"0 0 1 JANUARY,FEBRUARY,MARCH,APRIL,MAY,JUNE,JULY,AUGUST,SEPTEMBER,OCTOBER,NOVEMBER,DECEMBER *",
	"0 0 * * sunday,thursday,saturday,fri,sat,sun,wed,thu", "0 0 L * *", "0 0 l * *", "0 0 L-0 * *", "0 0 L-30 * *",
	"0 0 L-31 * *", "0 0 L-05 * *", "0 0 LW * *", "0 0 L-3w * *", "0 0 15W * *", "0 0 0W * *", "0 0 32W * *",
	"0 0 W * *", "0 0 1,L,15W,L-2W * *", "0 0 L/2 * *", "0 0 L-W * *", "0 0 1-5W * *", "0 0 15-L * *", "0 0 * * L",
	"0 0 * * 5L", "0 0 * * FRIL", "0 0 * * fridayl", "0 0 * * 8L", "0 0 * * LL", "0 0 * * 5#1", "0 0 * * 5#5",
	"0 0 * * 5#05", "0 0 * * 5#0", "0 0 * * 5#6", "0 0 * * FRI#2,MON#1", "0 0 * * FRI#", "0 0 * * #2", "0 0 * * 5#2/2",
	"0 0 * * MON-FRI#2", "L * * * *", "* L * * *", "0 0 * L *", "0 0 * 5#2 *", "0 0 * * 5W", "H * * * *", "H/5 * * * *",
	"0~30 * * * *", "FRI * * * *", "0 0 FRI * *", "0 0 1 MON *", "0 0 * * JAN", ", * * * *", "1,,2 * * * *",
	"1, * * * *", "*-5 * * * *", "+5 * * * *", "-5 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "*/9999999999 * * * *",
	"999999999 * * * *", "1234567890 * * * *", "* * * *", "* * * * * * *", "0 3 * * * /usr/bin/backup",
	"0 3 * * * root /usr/bin/backup", "?/2 ?/3 ?/4 ?/5 ?/6 ?/7", "/2 * * * *", "*/ * * * *", "@daily", "@Daily",
	" @WEEKLY ", "@hourly", "@midnight", "@monthly", "@yearly", "@annually", "@dayly", "@reboot", "@", "@daily 5",
	"@daily * * * *", "@every", "@every 1h30m", "@EVERY 90s", "@every 1s", "@every 0.5m", "@every .5h", "@every 1.s",
	"@every +1h", "@every -1h", "@every 999ms", "@every 1500ms", "@every 1000ms", "@every 0s", "@every 5",
	"@every 1h 30m", "@every 1H", "@every .s", "@every 1.1.1s", "@every 1000000us", "@every 1000000000ns",
	"@every 2562047h47m16s", "@every 9999999h", "@every 1.5s1500ms", "@every 1h0.0000000001s", "@every s", "TZ=0",
	"TZ=", "CRON_TZ=UTC 0 0 * * *", "cron_tz=UTC 0 0 * * *", "TZ=UTC @daily", "\"", "'", "\\", "0 0 * * \"5\"", "(",
	"[0-9] * * * *", "0 9 * * TUE every=2 from=2027-01-05", "0 9 * * TUE  from=2027-01-05   every=2", "@daily every=1",
	"@daily every=1 from=2027-01-05", "@daily every=0 from=2027-01-05", "@daily every=1001 from=2027-01-05",
	"@daily every=0002 from=2027-01-05", "@daily every=+2 from=2027-01-05", "@daily every=2", "@daily from=2027-01-05",
	"@daily every=2 from=2027-02-29", "@daily every=2 from=2028-02-29", "@daily every=2 from=27-01-05",
	"@daily every=2 every=2 from=2027-01-05", "0 9 1 * TUE every=2 from=2027-01-05", "0 9 L * ? every=2 from=2027-01-05",
	"0 9 */1 * TUE every=2 from=2027-01-05", "0 9 */2 * TUE every=2 from=2027-01-05", "0 9 1-31 * TUE every=3 from=2027-01-05",
	"0 9 * * 0-6 every=2 from=2027-01-05", "0 9 1 * 0-6 every=2 from=2027-01-05", "0 9 1 * 1-7 every=2 from=2027-01-05",
	"@weekly every=2 from=2027-01-05", "@every 5m every=2 from=2027-01-05", "@every 5m every=1 out-of=a",
	"@every 5m out-of=a keep-to=workdays", "@every 5m out-of=a move=next", "@every 5m out-of=a move=skip", "@every out-of=a 5m",
	"@daily out-of=company,school keep-to=workdays move=next", "@daily out-of=", "@daily out-of=a,", "@daily out-of=a,a",
	"@daily out-of=a,b,c,d,e,f,g,h", "@daily out-of=a,b,c,d,e,f,g,h,i", "@daily out-of=A", "@daily out-of=1a", "@daily out-of=a_-1",
	"@daily keep-to=workdays:mon-thu+sat", "@daily keep-to=workdays:mon-thu,sat", "@daily keep-to=workdays:fri-mon",
	"@daily keep-to=workdays:", "@daily keep-to=workdays:mon+", "@daily keep-to=workdays:MON", "@daily keep-to=workdays:1-5",
	"@daily keep-to=workdays:monday", "@daily keep-to=workdays:sat-sun", "@daily keep-to=workdays:sun-tue",
	"@daily move=next", "@daily move=skip", "@daily out-of=a move=far", "@daily out-of=a move=", "@daily foo=a", "@daily out-of=a b",
	"@daily out-of=a * b=c", "out-of=a @daily", "* * * * * * * out-of=a", "* * * * out-of=a", "61 * * * * out-of=a", "@daily =", "@daily every=",
	"@daily out-of=" + strings.Repeat("a", 63), "@daily out-of=" + strings.Repeat("a", 64), "@daily out-of=a=b", "@daily OUT-OF=a",
}

// cronFault asks Postgres what is wrong with an expression.
func cronFault(tb testing.TB, pool *pgxpool.Pool, expressions []string) []*string {
	tb.Helper()
	rows, err := pool.Query(context.Background(), `SELECT tasktable.cron_fault(one.cron) FROM unnest($1::text[])
		WITH ORDINALITY AS one (cron, place)
		ORDER BY one.place`, expressions)
	if err != nil {
		tb.Fatal(err)
	}
	faults, err := pgx.CollectRows(rows, pgx.RowTo[*string])
	if err != nil {
		tb.Fatal(err)
	}
	return faults
}

// agreeOnCron compares what Go and Postgres say of an expression. Only Go knows that 30 February never comes.
func agreeOnCron(tb testing.TB, expression string, fault *string) {
	tb.Helper()
	_, err := recurrence.Parse(expression, "")
	if err != nil && strings.Contains(err.Error(), "must be able to fire") {
		err = nil
	}
	if (err == nil) != (fault == nil) {
		tb.Errorf("%q: Go says %v, Postgres %s", expression, err, saysOrNothing(fault))
		return
	}
	if fault == nil {
		return
	}
	// Both name the same field, or break the same rule.
	const values = `"0123456789`
	said := strings.TrimLeft(strings.TrimPrefix(err.Error(), "invalid: cron"), ": ")
	ours, theirs := strings.IndexAny(said, values), strings.IndexAny(*fault+`"`, values)
	if strings.HasPrefix(*fault, "must have after @every") {
		ours, theirs = len("must have after"), len("must have after")
		said = strings.Replace(said, "@every must have", "must have after", 1)
	}
	if theirs < 5 || ours < theirs || said[:theirs] != (*fault)[:theirs] {
		tb.Errorf("%q: Go says %q, Postgres %q", expression, said, *fault)
	}
}

func saysOrNothing(fault *string) string {
	if fault == nil {
		return "nothing"
	}
	return *fault
}

// TestCronInSQL: Postgres takes an expression exactly if Go does.
func TestCronInSQL(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	expressions := cronCorpus
	random := rand.New(rand.NewPCG(21, 8))
	pieces := []string{"*", "?", "0", "1", "5", "7", "08", "12", "23", "31", "59", "60", "99", "-", "-", "/", "/2",
		"/7", "/60", ",", ",", "L", "W", "#2", "#6", "FRI", "monday", "JAN", "december", "SU", "LW", "L-3", "15W", "5L",
		"@every", "1h", "H", "~", "\""}
	for range 4000 {
		fields := make([]string, 5+random.IntN(2))
		for i := range fields {
			fields[i] = "*"
			if random.IntN(3) == 0 {
				fields[i] = ""
				for range 1 + random.IntN(4) {
					fields[i] += pieces[random.IntN(len(pieces))]
				}
			}
		}
		expressions = append(expressions, strings.Join(fields, " "))
	}
	taken := 0
	for i, fault := range cronFault(t, pool, expressions) {
		agreeOnCron(t, expressions[i], fault)
		if fault == nil {
			taken++
		}
	}
	if taken < 400 || taken > len(expressions)-600 {
		t.Errorf("%d of %d are taken: too few of one kind are compared", taken, len(expressions))
	}
}

// TestZonesInSQL: Postgres takes the zones that both know, and spelled as both spell them.
func TestZonesInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	names := one[[]string](b, b.Pool, `SELECT array_agg(name) FROM pg_timezone_names`)
	names = append(names, "europe/berlin", "EUROPE/BERLIN", "Europe/Atlantis", "Mars/Olympus", "PST", "CEST", "XYZ+3",
		"GMT+5", "FOO-1BAR", "Etc/GMT+13", "Etc/GMT-15", "ETC/GMT+13", "Local", "local", "localtime", "posixrules",
		"UTC", "GMT", "GMT0", "EST5EDT", "Etc/GMT+12", "Etc/GMT-14", "Etc/GMT0", "3", "default", "Europe", "Z")
	known := 0
	for _, name := range names {
		_, err := recurrence.Parse("@daily", name)
		if got := one[bool](b, b.Pool, `SELECT tasktable.knows_time_zone($1)`, name); got != (err == nil) {
			t.Errorf("%s: Postgres takes it: %t, Go says %v", name, got, err)
		} else if got {
			known++
		}
	}
	if known < 300 {
		t.Errorf("only %d zones are known", known)
	}
	if zone := one[string](b, b.Pool, `SELECT tasktable.knows_time_zone('Asia/Tokyo')::text || ' '
		|| current_setting('timezone')`); strings.Contains(zone, "Tokyo") {
		t.Errorf("the session's zone is now another: %s", zone)
	}
}

// TestBadCronIsRefusedInSQL: an expression or zone that cannot be read is refused at once, by each way,
// and changes nothing.
func TestBadCronIsRefusedInSQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.MakeRecurring("one", "planned")
	before := b.state("one")
	for _, bad := range []struct{ cron, zone, says string }{
		{"61 * * * *", "UTC", `cron: minute 61 is not in 0-59, in "61 * * * *"`},
		{"*/90 * * * *", "UTC", "cron: minute step 90 is not in 1-60: a step counts anew in each hour"},
		{"never", "UTC", "cron: must be 5 fields"},
		{"TZ=UTC 0 0 * * *", "UTC", "cron: must not name a zone"},
		{"@every 1ms", "UTC", "cron: must have after @every a duration of whole seconds"},
		{"0 0 * * XYZ", "UTC", `cron: day of week "XYZ" is not a number in 0-7, nor a name`},
		{
			"@daily", "Europe/Atlantis",
			`time_zone must be an IANA zone that this Postgres knows, such as Europe/Berlin, got "Europe/Atlantis"`,
		},
		{"@daily", "europe/berlin", "time_zone must be"},
		{"@daily", "Local", "time_zone must be"},
	} {
		values := []any{bad.cron, bad.zone}
		for _, sql := range []string{
			`SELECT tasktable.schedule_recurring('{"type": "TEST"}', $1, 'new', time_zone => $2)`,
			`SELECT tasktable.schedule_recurring('{"type": "TEST"}', $1, 'one', time_zone => $2)`,
			`SELECT tasktable.schedule('{"type": "TEST"}', id => 'new', cron => $1, time_zone => $2)`,
			`SELECT * FROM tasktable.schedule_many(jsonb_build_array(jsonb_build_object('id', 'new', 'payload',
				'{"type": "TEST"}'::jsonb, 'cron', $1::text, 'time_zone', $2::text)))`,
			`INSERT INTO tasktable.scheduled_tasks (id, payload, cron, time_zone)
				VALUES ('new', '{"type": "TEST"}', $1, $2)`,
			`UPDATE tasktable.scheduled_tasks SET cron = $1, time_zone = $2 WHERE id = 'one'`,
		} {
			b.refused(sql, bad.says, values...)
		}
	}
	same(b, "task", b.state("one"), before)
	if b.Get("new") != nil {
		t.Error("a task was made")
	}
	// A task that cannot be read all the same, as one of another release, can be edited otherwise, and mended.
	b.Exec(b.Pool, `DO $$ BEGIN
		SET LOCAL session_replication_role = replica;
		UPDATE tasktable.scheduled_tasks SET cron = 'never' WHERE id = 'one';
	END $$`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET priority = 7 WHERE id = 'one'`)
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET cron = '0 0 L * *' WHERE id = 'one'`)
	if _, err := b.Tasks.Schedule(b.Ctx, b.Pool, store.Task{
		ID: "new", Payload: plain{}, Recurrence: &store.Recurrence{Cron: "61 * * * *"},
	}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("from Go: %v", err)
	}
}

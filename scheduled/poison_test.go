package scheduled

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// uncheckedSQL takes away all that keeps a bad row out.
const uncheckedSQL = `
DO $$
DECLARE
    rule record;
BEGIN
    FOR rule IN SELECT c.conname, t.typname FROM pg_constraint AS c JOIN pg_type AS t ON t.oid = c.contypid WHERE t.typnamespace = 'tasktable'::regnamespace LOOP
        EXECUTE format('ALTER DOMAIN tasktable.%I DROP CONSTRAINT %I', rule.typname, rule.conname);
    END LOOP;
    FOR rule IN SELECT conname FROM pg_constraint WHERE conrelid = 'tasktable.scheduled_tasks'::regclass AND contype = 'c' LOOP
        EXECUTE format('ALTER TABLE tasktable.scheduled_tasks DROP CONSTRAINT %I', rule.conname);
    END LOOP;
    FOR rule IN SELECT attname FROM pg_attribute WHERE attrelid = 'tasktable.scheduled_tasks'::regclass AND attnum > 0 AND attname <> 'id' LOOP
        EXECUTE format('ALTER TABLE tasktable.scheduled_tasks ALTER COLUMN %I DROP NOT NULL', rule.attname);
    END LOOP;
    ALTER TABLE tasktable.scheduled_tasks ALTER COLUMN type DROP EXPRESSION;
    ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
END $$`

// A row that no check has seen harms nobody but itself: it fails and says why, or stays where everybody can see it.
func TestPoisonousRows(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var rules []string
	if err := s.pool.QueryRow(t.Context(), `SELECT array_agg(pg_get_constraintdef(oid)) FROM pg_constraint WHERE contypid <> 0`).Scan(&rules); err != nil || len(rules) < 10 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	s.exec(uncheckedSQL)
	good := 0
	more := func(n int) {
		t.Helper()
		for range n {
			s.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, next_attempt_at)
				VALUES ($1, '{"type":"JOB","name":"good"}', 'JOB', nextval('tasktable.task_numbers'), clock_timestamp())`, fmt.Sprint("good ", good))
			good++
		}
	}
	const (
		fails = store.StatusFailed
		waits = store.StatusQueued
		runs  = store.StatusCompleted
	)
	poisons := map[string]struct {
		set    string // column = value, ...
		status store.Status
	}{
		"next at -infinity":       {`next_attempt_at = '-infinity'`, runs},
		"next at infinity":        {`next_attempt_at = 'infinity', scheduled_at = 'infinity'`, waits},
		"next at 20000 AD":        {`next_attempt_at = '20000-01-01', scheduled_at = '20000-01-01'`, waits},
		"next BC":                 {`next_attempt_at = '4000-01-01 BC', scheduled_at = '4000-01-01 BC'`, runs},
		"scheduled at -infinity":  {`scheduled_at = '-infinity'`, runs},
		"scheduled at infinity":   {`scheduled_at = 'infinity'`, runs},
		"scheduled at 20000 AD":   {`scheduled_at = '20000-01-01'`, runs},
		"not scheduled":           {`scheduled_at = NULL`, ""},
		"run now at infinity":     {`run_now_at = 'infinity', expiration = '1 second'`, ""},
		"expiration overflows":    {`expiration = '300000 years'`, fails},
		"negative expiration":     {`expiration = '-1 year'`, store.StatusExpired},
		"expects 1000 years":      {`expected_execution_time = '1000 years'`, ""},
		"expects 300000 years":    {`expected_execution_time = '300000 years'`, ""},
		"expects the past":        {`expected_execution_time = '-1 hour'`, ""},
		"expects a past year":     {`expected_execution_time = '-1000 years'`, ""},
		"expects nothing":         {`expected_execution_time = NULL`, ""},
		"expects 0":               {`expected_execution_time = '0'`, runs},
		"no type":                 {`type = NULL`, waits},
		"empty type":              {`type = ''`, waits},
		"odd type":                {`type = E'JOB\n'`, waits},
		"array payload":           {`payload = '[1]'`, fails},
		"number payload":          {`payload = '7'`, fails},
		"payload of another":      {`payload = '{"name":[]}'`, fails},
		"huge payload":            {`payload = jsonb_build_object('type', 'JOB', 'name', repeat('x', 3000000))`, runs},
		"no payload":              {`payload = NULL`, fails},
		"attempt overflows":       {`attempt = 2147483647`, fails},
		"negative attempt":        {`attempt = -5`, runs},
		"no attempt":              {`attempt = NULL`, ""},
		"no max_attempts":         {`max_attempts = NULL`, ""},
		"negative max_attempts":   {`max_attempts = -1`, runs},
		"no priority":             {`priority = NULL`, waits},
		"wild priority":           {`priority = 2000000000`, runs},
		"no queue":                {`queue = NULL`, waits},
		"odd queue":               {`queue = 'No, Such; Queue'`, waits},
		"old revision":            {`revision = -7`, runs},
		"long entity":             {`entity = repeat('x', 2000), tenant_id = ''`, runs},
		"no status":               {`status = NULL`, ""},
		"unknown status":          {`status = 'BOGUS', next_attempt_at = NULL`, "BOGUS"},
		"bad\x01\n id":            {`priority = 0`, runs},
		strings.Repeat("9:", 600): {`priority = 0`, runs},
		"forbidden":               {`message = NULL`, waits}, // see below
	}
	more(10)
	for id, poison := range poisons {
		s.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, next_attempt_at, scheduled_at)
			VALUES ($1, '{"type":"JOB","name":"poison"}', 'JOB', nextval('tasktable.task_numbers'), clock_timestamp() - interval '1 minute', clock_timestamp() - interval '1 minute')`, id)
		s.exec(`UPDATE tasktable.scheduled_tasks SET `+poison.set+` WHERE id = $1`, id)
	}
	// One that no statement can even change: an application's rule that is newer than the row.
	s.exec(`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "not this one" CHECK (id <> 'forbidden') NOT VALID`)
	more(10)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() { // every run succeeds at once
		for {
			for id := range poisons {
				select {
				case a := <-s.of(id):
					a.end <- nil
				default:
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	s.node(nil)
	began := time.Now()
	goods := func(from int) {
		t.Helper()
		for i := from; i < good; i++ {
			s.begins(fmt.Sprint("good ", i)).end <- nil
		}
		eventually(t, 10*time.Second, "the good ones are completed", func() bool {
			return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE id LIKE 'good %' AND status = 'COMPLETED'`) == good
		})
	}
	goods(0)
	t.Logf("beside %d poisonous rows %d good ones were completed within %s", len(poisons), good, time.Since(began))
	var all map[string]string
	states := func() map[string]string {
		t.Helper()
		var ids, texts []string
		if err := s.pool.QueryRow(t.Context(), `SELECT array_agg(id::text), array_agg(concat_ws(' ', status, CASE WHEN fence IS NOT NULL THEN 'held until ' || held_until END, message))
			FROM tasktable.scheduled_tasks WHERE id NOT LIKE 'good %'`).Scan(&ids, &texts); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for i, id := range ids {
			found[id] = texts[i]
		}
		return found
	}
	for id, poison := range poisons {
		if poison.status != "" {
			eventually(t, 10*time.Second, fmt.Sprintf("%q is %s", id, poison.status), func() bool {
				all = states()
				return strings.HasPrefix(all[id], string(poison.status))
			})
		}
	}
	more(5)
	goods(good - 5)
	all = states()
	for id, state := range all {
		t.Logf("%.40q: %.150s", id, state)
	}
	if n := s.count(`SELECT count(*) FROM tasktable.scheduled_task_executions`); n > good+3*len(poisons) {
		t.Errorf("%d executions of %d tasks: some are tried again and again", n, good+len(poisons))
	}
}

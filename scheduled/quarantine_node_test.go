package scheduled

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// uncheckedSQL takes away all that keeps a bad row out.
const uncheckedSQL = `
DO $$
DECLARE
    rule record;
BEGIN
    FOR rule IN SELECT c.conname, t.typname FROM pg_constraint AS c JOIN pg_type AS t ON t.oid = c.contypid
    WHERE t.typnamespace = 'tasktable'::regnamespace LOOP
        EXECUTE format('ALTER DOMAIN tasktable.%I DROP CONSTRAINT %I', rule.typname, rule.conname);
    END LOOP;
    FOR rule IN SELECT conname FROM pg_constraint WHERE conrelid = 'tasktable.scheduled_tasks'::regclass
    AND contype = 'c' LOOP
        EXECUTE format('ALTER TABLE tasktable.scheduled_tasks DROP CONSTRAINT %I', rule.conname);
    END LOOP;
    FOR rule IN SELECT attname FROM pg_attribute WHERE attrelid = 'tasktable.scheduled_tasks'::regclass AND attnum > 0
    AND attname <> 'id' LOOP
        EXECUTE format('ALTER TABLE tasktable.scheduled_tasks ALTER COLUMN %I DROP NOT NULL', rule.attname);
    END LOOP;
    ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER;
END $$`

// A row that no check has seen harms nobody but itself: it fails and says why, or stays where everybody can see it.
func TestPoisonousRows(t *testing.T) {
	s := newBench(t)
	var rules []string
	if err := s.Pool.QueryRow(
		t.Context(), `SELECT array_agg(pg_get_constraintdef(oid)) FROM pg_constraint WHERE contypid <> 0`,
	).Scan(&rules); err != nil || len(rules) < 10 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	s.Exec(uncheckedSQL)
	good := 0
	more := func(n int) {
		t.Helper()
		for range n {
			s.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, next_attempt_at)
				VALUES ($1, '{"type":"JOB","name":"good"}', 'JOB', nextval('tasktable.task_numbers'),
					clock_timestamp())`, fmt.Sprint("good ", good))
			good++
		}
	}
	const (
		fails = store.StatusFailed
		waits = store.StatusQueued
		runs  = store.StatusCompleted
	)
	endless := fails
	if s.Count(`SELECT current_setting('server_version_num')::int`) >= 170000 {
		endless = waits // from Postgres 17 on, an interval may be infinite, too
	}
	poisons := map[string]struct {
		set    string // column = value, ...
		status store.Status
	}{
		"next at -infinity":      {`next_attempt_at = '-infinity'`, runs},
		"next at infinity":       {`next_attempt_at = 'infinity', scheduled_at = 'infinity'`, waits},
		"next at 20000 AD":       {`next_attempt_at = '20000-01-01', scheduled_at = '20000-01-01'`, waits},
		"next BC":                {`next_attempt_at = '4000-01-01 BC', scheduled_at = '4000-01-01 BC'`, runs},
		"scheduled at -infinity": {`scheduled_at = '-infinity'`, runs},
		"scheduled at infinity":  {`scheduled_at = 'infinity'`, endless},
		"scheduled at 20000 AD":  {`scheduled_at = '20000-01-01'`, waits},
		"not scheduled":          {`scheduled_at = NULL`, ""},
		"run now at infinity":    {`run_now_at = 'infinity', expiration = '1 second'`, endless},
		"expiration overflows":   {`expiration = '300000 years'`, fails},
		"negative expiration":    {`expiration = '-1 year'`, store.StatusExpired},
		"expects 1000 years":     {`expected_execution_time = '1000 years'`, runs},
		"expects 300000 years":   {`expected_execution_time = '300000 years'`, runs},
		// A handler without any time fails, unless it is quicker than its context.
		"expects the past":        {`expected_execution_time = '-1 hour', max_attempts = 1`, ""},
		"expects a past year":     {`expected_execution_time = '-1000 years', max_attempts = 1`, ""},
		"expects nothing":         {`expected_execution_time = NULL, max_attempts = 1`, ""},
		"expects 0":               {`expected_execution_time = '0', max_attempts = 1`, ""},
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
		"no attempt":              {`attempt = NULL`, fails},
		"no max_attempts":         {`max_attempts = NULL`, fails},
		"negative max_attempts":   {`max_attempts = -1`, runs},
		"no priority":             {`priority = NULL`, waits},
		"wild priority":           {`priority = 2000000000`, runs},
		"no queue":                {`queue = NULL`, waits},
		"odd queue":               {`queue = 'No, Such; Queue'`, waits},
		"old revision":            {`revision = -7`, runs},
		"long entity":             {`entity = repeat('x', 2000), tenant_id = ''`, runs},
		"no status":               {`status = NULL`, runs},
		"unknown status":          {`status = 'BOGUS', next_attempt_at = NULL`, "BOGUS"},
		"bad\x01\n id":            {`priority = 0`, runs},
		strings.Repeat("9:", 600): {`priority = 0`, runs},
		"forbidden":               {`message = NULL`, waits}, // see below
	}
	more(10)
	for id, poison := range poisons {
		s.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, next_attempt_at, scheduled_at)
			VALUES ($1, '{"type":"JOB","name":"poison"}', 'JOB', nextval('tasktable.task_numbers'),
				clock_timestamp() - interval '1 minute', clock_timestamp() - interval '1 minute')`, id)
		s.Exec(`UPDATE tasktable.scheduled_tasks SET `+poison.set+` WHERE id = $1`, id)
	}
	// One that no statement can even change: an application's rule that is newer than the row.
	s.Exec(`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "not this one" CHECK (id <> 'forbidden') NOT VALID`)
	more(10)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() { // every run succeeds at once
		for {
			for id := range poisons {
				select {
				case a := <-s.Of(id):
					a.End <- nil
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
			s.Begins(fmt.Sprint("good ", i)).End <- nil
		}
		s.Sees("the good ones are completed",
			`SELECT count(*) = $1 FROM tasktable.scheduled_tasks WHERE id LIKE 'good %'
				AND status = 'COMPLETED'`, good)
	}
	goods(0)
	t.Logf("beside %d poisonous rows %d good ones were completed within %s", len(poisons), good, time.Since(began))
	states := func() map[string]string {
		t.Helper()
		var ids, texts []string
		s.OK(s.Pool.QueryRow(t.Context(), `SELECT array_agg(id::text),
			array_agg(concat_ws(' ', status, CASE WHEN fence IS NOT NULL THEN 'held until '
			|| lease_expires_at END, message))
			FROM tasktable.scheduled_tasks WHERE id NOT LIKE 'good %'`).Scan(&ids, &texts))
		found := map[string]string{}
		for i, id := range ids {
			found[id] = texts[i]
		}
		return found
	}
	for id, poison := range poisons {
		enginetest.Eventually(t, patience, fmt.Sprintf("%q is %s", id, poison.status), func() bool {
			state := states()[id]
			return strings.HasPrefix(state, string(poison.status)) &&
				(poison.status != "" || !strings.HasPrefix(state, "EXECUTING"))
		})
	}
	more(5)
	goods(good - 5)
	for id, state := range states() {
		if !strings.HasPrefix(state, string(poisons[id].status)) ||
			poisons[id].status != "" && strings.Contains(state, "held") {
			t.Errorf("%.40q: %.150s, want %s", id, state, poisons[id].status)
		}
		if poisons[id].status == fails && !says(state) {
			t.Errorf("%.40q does not say why: %.150s", id, state)
		}
	}
	if n := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions`); n > good+3*len(poisons) {
		t.Errorf("%d executions of %d tasks: some are tried again and again", n, good+len(poisons))
	}
}

// says tells whether a failed task names the reason.
func says(state string) bool {
	return slices.ContainsFunc(
		[]string{"the task cannot be ", "payload does not decode: ", "the attempt took longer "},
		func(reason string) bool { return strings.HasPrefix(state, "FAILED "+reason) },
	)
}

// A claim that nobody may take back, by a rule of the application's, keeps no other from being taken back,
// nor anything else.
func TestPoisonousClaims(t *testing.T) {
	s := newBench(t)
	held := []string{"good", "forbidden", "another good", "for ever", "since ever"}
	for _, id := range held {
		s.Add(id, func(task *store.Task) { task.MaxAttempts = 2 })
	}
	s.Exec(`ALTER DOMAIN tasktable.task_instant DROP CONSTRAINT "next_attempt_at and lease_expires_at must be finite"`)
	s.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', attempt = 1, next_attempt_at = NULL,
		fence = nextval('tasktable.task_numbers'),
		lease_expires_at = CASE id WHEN 'for ever' THEN 'infinity' WHEN 'since ever' THEN '-infinity'
		ELSE clock_timestamp() - interval '1 minute' END`)
	s.Exec(`CREATE FUNCTION refuse() RETURNS trigger
		LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the application says no'; END $$`)
	s.Exec(`CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW WHEN (OLD.id = 'forbidden')
		EXECUTE FUNCTION refuse()`)
	soon := func(c *Config) { c.abandonedAfter = 100 * time.Millisecond }
	stop := s.node(soon)
	for _, id := range []string{"good", "another good", "since ever"} {
		if a := s.Begins(id); a.Attempt != 2 {
			t.Errorf("%s runs as attempt %d", id, a.Attempt)
		} else {
			a.End <- nil
		}
		s.Is(id, store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted)
	}
	for i := range 5 {
		s.Add(fmt.Sprint(i), nil)
		s.Begins(fmt.Sprint(i)).End <- nil
	}
	s.Counts("claims are seen to be stuck", 1,
		`SELECT count(*) FROM tasktable.running_tasks WHERE id = 'forbidden' AND stuck`)
	stop() // this leader would try once more after a minute
	s.Exec(`DROP TRIGGER refuse ON tasktable.scheduled_tasks`)
	s.Exec(`UPDATE tasktable.scheduled_tasks SET lease_expires_at = clock_timestamp()
		WHERE id IN ('forbidden', 'for ever')`)
	s.node(soon)
	for _, id := range []string{"forbidden", "for ever"} { // once they may be
		s.Begins(id).End <- nil
		s.Is(id, store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted)
	}
}

// River jobs that are not the engine's, in its own table, change nothing.
func TestPoisonousRiverJobs(t *testing.T) {
	s := newBench(t)
	for i, job := range []struct{ kind, state, args, metadata string }{
		{"JOB", "available", `{"tasks": "what?"}`, `{"tasks": 1}`},
		{"JOB", "available", `{"tasks": "1:2:3:4:9:x"}`, `{"tasks": "many"}`},
		{"JOB", "available", `{"tasks": 7}`, `{"tasks": {}}`},
		{"JOB", "available", `{}`, `{}`},
		{"JOB", "available", `[]`, `{"tasks": -1e9}`},
		{"FOREIGN", "available", `{"tasks": "1:2:3:4:1:x"}`, `{"tasks": "many"}`},
		{"FOREIGN", "available", `{"tasks": []}`, `{"tasks": 1e30}`},
		{"JOB", "running", `{"tasks": "what?"}`, `{"tasks": null}`},
		{"JOB", "running", `{"tasks": "999:1:1:0:4:lost"}`, `{"tasks": 1.5}`},
	} {
		s.Exec(`INSERT INTO tasktable.river_job (state, kind, args, metadata, max_attempts, queue, attempted_by,
			priority) VALUES ($1, $2, $3, $4, 1, 'default', $5, 1)`,
			job.state, job.kind, job.args, job.metadata, []string{fmt.Sprint("client ", i)})
	}
	s.node(nil)
	for i := range 5 {
		s.Add(fmt.Sprint(i), nil)
		s.Begins(fmt.Sprint(i)).End <- nil
		s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.Exec(`DELETE FROM tasktable.river_job WHERE kind = 'FOREIGN' OR attempted_by[1] LIKE 'client %'`)
}

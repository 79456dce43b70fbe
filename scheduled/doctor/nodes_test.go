package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestNoNode(t *testing.T) {
	p := newPatient(t)
	report := p.examine(nil, "nodes", "leader", "attention")
	p.finds(report, "nodes", Info, "no node runs")
	p.finds(report, "leader", Info, "nobody holds the leader's lock")
	p.finds(report, "attention", Warning, "no node runs: nothing is claimed")
	p.put("now", "TEST", "default", time.Hour)
	p.finding("attention", Error, "no node runs: nothing is claimed")
}

// A node that is gone is none of its service.
func TestANodeThatIsGone(t *testing.T) {
	p := newPatient(t)
	_, holder := p.fakeNode("mail", "v1", "")
	p.finding("nodes", OK, "1 node of service mail, version v1, queues default=100")
	p.on(holder, "SELECT pg_advisory_unlock_all()")
	p.finding("nodes", Info, "no node runs")
}

func TestVersionsSideBySide(t *testing.T) {
	p := newPatient(t)
	p.fakeNode("mail", "v1", "")
	p.fakeNode("mail", "v2", "")
	p.fakeNode("mail", "v2", "")
	p.finding("nodes", Info, "service mail runs several versions side by side: 1 of v1, 2 of v2")
}

// The order of the node that began last holds. Orders that do not contradict each other are joined.
func TestOrdersOfQueues(t *testing.T) {
	p := newPatient(t)
	const ignored = "the leader ignores the order of queues"
	strict := func(queues string) {
		number, _ := p.fakeNode("mail", "v1", "")
		p.exec(`UPDATE tasktable.nodes SET strict_queues = $2::text::text[] WHERE number = $1`, number, queues)
	}
	for _, queues := range []string{"{critical,default,low}", "{critical,default,low}", "{critical,low}", "{mail,low}", "{}"} {
		strict(queues)
	}
	p.finding("nodes", OK, "5 nodes of service mail")
	if text := list(p.examine(nil, "nodes")); strings.Contains(text, ignored) {
		t.Errorf("they do not contradict each other: %s", text)
	}
	strict("{low,critical}")
	report := p.examine(nil, "nodes")
	p.finds(report, "nodes", Warning, ignored+" of node 3, critical,low, because it contradicts nodes that began later; it "+
		"goes by mail,low,critical")
	p.finds(report, "nodes", Warning, ignored+" of node 2, critical,default,low, because")
}

// Nodes that were started with different defaults of all types are told of. A node without any does not matter.
func TestDefaultsThatDiffer(t *testing.T) {
	p := newPatient(t)
	node := func(defaults string) {
		number, _ := p.fakeNode("mail", "v1", "")
		p.exec(`UPDATE tasktable.nodes SET defaults = $2::text::jsonb WHERE number = $1`, number, defaults)
	}
	node(`{"queue": "mail"}`)
	node(`{"queue": "mail"}`)
	p.fakeNode("mail", "v1", "")
	p.well(p.examine(nil, "nodes"))
	node(`{"queue": "mail", "max_attempts": 3}`)
	p.finding("nodes", Warning, "nodes have different defaults of all types, of which those of the "+
		`last start hold, such as node 2 {"queue": "mail"} and node 4 {"queue": "mail", "max_attempts": 3}`)
}

func TestACrashLoop(t *testing.T) {
	p := newPatient(t)
	p.fakeNode("mail", "v1", "")
	ended := func(service string, n int, lived, ago string) {
		p.exec(`INSERT INTO tasktable.nodes (service, version, host, queues, types, started_at, dead_at)
			SELECT $1, 'v1', 'host/1', '{}', '{}', clock_timestamp() - $3::text::interval - $4::text::interval,
				clock_timestamp() - $4::text::interval
			FROM generate_series(1, $2)`, service, n, lived, ago)
	}
	ended("steady", 9, "3 hours", "10 minutes")
	ended("past", 9, "10 seconds", "2 hours")
	ended("some", 4, "10 seconds", "10 minutes")
	p.well(p.examine(nil, "nodes"))
	ended("crashing", 6, "10 seconds", "10 minutes")
	p.finding("nodes", Warning, "6 nodes of service crashing ended within 2m of their start in the last hour")
}

// A leader that is missing for so long that the doctor gives up is told with what needs a person.
func TestNobodyLeads(t *testing.T) {
	p := newPatient(t)
	p.fakeNode("mail", "v1", "")
	report := p.examine(func(l *limits) { l.noLeader = 300 * time.Millisecond }, "leader", "attention")
	p.finds(report, "leader", Info, "nobody holds the leader's lock: see attention")
	p.finds(report, "attention", Error, "no node leads, of 1 that live: nothing is claimed")
}

// Quiet nodes are there and take nothing.
func TestQuietNodes(t *testing.T) {
	p := newPatient(t)
	number, _ := p.fakeNode("mail", "v1", "")
	p.fakeNode("mail", "v1", "")
	p.exec(`UPDATE tasktable.nodes SET queues = '{}', types = '{}', may_lead = false WHERE number = $1`, number)
	report := p.examine(nil, "nodes")
	p.finds(report, "nodes", OK, "2 nodes of service mail, version v1, queues default=100")
	quiet := p.finds(
		report, "nodes", Info,
		fmt.Sprintf("1 of 2 nodes is quiet, and takes nothing new: node %d (mail on host/1)", number),
	)
	if quiet.Do != "to end that: kill -CONT its process, or call node.Unquiet()" {
		t.Errorf("it says %q", quiet.Do)
	}
	p.exec(`UPDATE tasktable.nodes SET queues = '{}', types = '{}', may_lead = false`)
	report = p.examine(nil, "nodes")
	p.finds(report, "nodes", OK, "2 nodes of service mail, version v1, all of them quiet")
	p.finds(report, "nodes", Info, "2 of 2 nodes are quiet, and take nothing new")
	p.exec(`UPDATE tasktable.nodes SET may_lead = true`)
	p.finding("nodes", OK, "2 nodes of service mail, version v1, which run no tasks")
}

// A leader that comes while the doctor looks is no finding.
func TestALeaderThatComes(t *testing.T) {
	p := newPatient(t)
	_, conn := p.fakeNode("mail", "v1", "")
	asked := make(chan Report, 1)
	go func() {
		patient := defaultLimits
		patient.noLeader, patient.check = time.Minute, time.Minute
		report, _ := Examine(p.ctx, Config{Pool: p.pool, Only: []string{"leader"}, limits: patient})
		asked <- report
	}()
	p.until("it has looked", `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
		AND application_name = 'tasktable doctor' AND state = 'idle in transaction'
		AND query LIKE '%pg_locks AS own%')`)
	p.on(conn, leaderLock)
	p.finds(<-asked, "leader", OK, "leads: mail on host/1")
}

func TestAStrangerHasTheLeadersLock(t *testing.T) {
	p := newPatient(t)
	p.fakeNode("mail", "v1", "")
	stranger := p.connect()
	p.on(stranger, "SET application_name = 'the stranger'", leaderLock)
	found := p.finding("leader", Error, fmt.Sprintf("pid %d (role ", stranger.PgConn().PID()),
		`application "the stranger") holds the leader's lock, and is no node`)
	end := fmt.Sprintf("SELECT pg_terminate_backend(%d);", stranger.PgConn().PID())
	if !containsAll(found.Do, []string{end, "REVOKE CONNECT ON DATABASE"}) {
		t.Errorf("it says %q", found.Do)
	}
	p.exec(end)
	p.until("the stranger is gone", `SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1)`,
		int32(stranger.PgConn().PID()))
	p.node()
	p.well(p.examine(nil, "leader"))
}

func TestSomebodyWaitsForTheLeadersLock(t *testing.T) {
	p := newPatient(t)
	p.node()
	waiter := p.connect()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = waiter.Exec(p.ctx, leaderLock)
	}()
	p.until("it waits", `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE pid = $1 AND locktype = 'advisory'
		AND NOT granted)`,
		int32(waiter.PgConn().PID()))
	report := p.examine(nil, "leader")
	p.finds(report, "leader", OK, "leads: test on")
	found := p.finds(report, "leader", Warning, "waits for the leader's lock")
	p.exec(found.Do)
	<-ended
	p.well(p.examine(nil, "leader"))
}

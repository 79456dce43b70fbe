//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/localpg"
)

// harness is all that a run consists of.
type harness struct {
	t        *testing.T
	settings settings
	cluster  *cluster
	admin    *pgxpool.Pool // straight to the server, for what the test itself asks
	opLog    *opLog
	timeline *timeline
	slots    []*slot
	writers  []*writer
	wires    []*wire // of the writers

	receivers *receivers
	api       *server // nil without a caller
	callers   []*caller
	follower  *follower // nil without the API
	began     time.Time

	mu        sync.Mutex
	processes []*process // all that ever ran
	wrong     []string   // what nodes did wrong when they stopped
}

// slot is the place of a node: its wires stay when the process is another.
type slot struct {
	name   string
	wire   *wire // of its session
	pools  *wire // of all its other connections
	config nodeConfig

	mu      sync.Mutex
	process *process
	busy    bool // a fault that is not over has it
	quiet   bool // that fault makes it quiet
}

const beginLimit = 2 * time.Minute

func newHarness(t *testing.T, s settings) *harness {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), beginLimit)
	defer cancel()
	c, err := startCluster(ctx)
	if errors.Is(err, localpg.ErrNoPostgres) || errors.Is(err, localpg.ErrUnsupported) {
		t.Skipf("it needs a Postgres that it can stop: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &harness{t: t, settings: s, cluster: c, opLog: &opLog{}, timeline: &timeline{}, began: time.Now()}
	t.Cleanup(r.remove)
	if err := r.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *harness) prepare(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(r.cluster.server.URL())
	if err != nil {
		return fmt.Errorf("parse URL: %w", err)
	}
	config.ConnConfig.RuntimeParams["application_name"] = "torture"
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0" // a fault gives all other new connections a short one
	config.ConnConfig.ConnectTimeout = 2 * time.Second
	if r.admin, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	if err := migrations.Up(ctx, r.admin, ""); err != nil {
		return err
	}
	if err := prepareAudit(ctx, r.admin); err != nil {
		return err
	}
	if err := r.limit(ctx); err != nil {
		return err
	}
	if r.receivers, err = openReceivers(); err != nil {
		return err
	}
	if err := r.openWriters(ctx); err != nil {
		return err
	}
	if err := r.openCallers(ctx); err != nil {
		return err
	}
	for i := range r.settings.Nodes {
		if err := r.openSlot(i); err != nil {
			return err
		}
	}
	return r.awaitNodes(ctx)
}

// rareLimit is how many tasks of the type that has few slots run at once, over all nodes. It is fewer than their slots.
func (s settings) rareLimit() int {
	kind := rare{}.TaskType()
	return max(rareSlots(s.Slots, 10)[kind]+rareSlots(s.Slots, 5)[kind]-2, 1)
}

// groupedType is a type of which the tasks of each group run in order.
var groupedType = inTx{}.TaskType()

// ratedType is a type of which the tasks of each group start at a rate. It is more than what a steered run schedules.
var ratedType = inSQL{}.TaskType()

const ratePerSecond, rateBurst = 20, 2

// groupWeights are those of the type that has few slots.
var groupWeights = store.Weights{"heavy-0": 3}

// groupOf is the group of a task. There are so few groups that tasks of most wait for each other.
func groupOf(kind, id string) string {
	number := crc32.ChecksumIEEE([]byte(id))
	switch kind {
	case groupedType:
		return fmt.Sprint("group-", number%12)
	case ratedType:
		return fmt.Sprint("rated-", number%4)
	case rare{}.TaskType():
		return fmt.Sprint("heavy-", number%2)
	}
	return ""
}

// limit sets limits over all nodes.
func (r *harness) limit(ctx context.Context) error {
	tasks := store.New(store.Config{})
	for _, limit := range []store.Limit{
		{Name: "rare", Of: store.Type(rare{}.TaskType()), MaxRunning: r.settings.rareLimit()},
		{Name: "weights", Of: store.Type(rare{}.TaskType()), Per: store.PerGroup, Weights: groupWeights},
		{Name: "groups", Of: store.Type(groupedType), Per: store.PerGroup, InOrder: true},
		{Name: "rates", Of: store.Type(ratedType), Per: store.PerGroup, Rate: ratePerSecond, Burst: rateBurst},
	} {
		if _, err := tasks.SetLimit(ctx, r.admin, limit); err != nil {
			return err
		}
	}
	return nil
}

func (r *harness) openWriters(ctx context.Context) error {
	for i := range r.settings.Writers {
		name := fmt.Sprintf("writer-%d", i+1)
		w, err := newWire(name, r.cluster.address())
		if err != nil {
			return err
		}
		r.wires = append(r.wires, w)
		url, err := r.cluster.urlAt(w.address)
		if err != nil {
			return err
		}
		one, err := openWriter(
			context.WithoutCancel(ctx), name, url, r.opLog, r.settings, r.settings.random(uint64(100+i)),
		)
		if err != nil {
			return err
		}
		one.hosts = r.receivers.hosts
		r.writers = append(r.writers, one)
	}
	return nil
}

// openSlot starts a node with its wires.
func (r *harness) openSlot(i int) error {
	s := &slot{name: fmt.Sprintf("node-%d", i+1)}
	var err error
	if s.wire, err = newWire(s.name, r.cluster.address()); err != nil {
		return err
	}
	if s.pools, err = newWire(s.name+" pools", r.cluster.address()); err != nil {
		s.wire.cut()
		return err
	}
	r.slots = append(r.slots, s)
	url, err := r.cluster.urlAt(s.pools.address)
	if err != nil {
		return err
	}
	s.config = r.configOf(i)
	s.config.URL, s.config.Session = url, s.wire.address
	return r.startNode(s)
}

// configOf configures a node. One has no handler for a type, as an older version of a service, and the others have few
// slots for that type, not all the same number. One has a short statement_timeout. The fourth is another service's,
// with a type of its own.
func (r *harness) configOf(i int) nodeConfig {
	queues := map[string]int{"default": r.settings.Slots, slowQueue: slowSlots(r.settings.Slots)}
	config := nodeConfig{Service: ourService, Queues: queues}
	if r.settings.Skewed {
		config.Skew = []int{3600, -3600, 0, 86400}[i%4]
	}
	switch i {
	case 0:
		config.Types, config.TypeSlots = slices.Clone(ourTypes), rareSlots(r.settings.Slots, 10)
	case 1:
		config.Types = slices.DeleteFunc(slices.Clone(ourTypes), func(kind string) bool {
			return kind == rare{}.TaskType()
		})
	case 2:
		config.Types, config.StatementTimeout = slices.Clone(ourTypes), time.Second
		config.TypeSlots = rareSlots(r.settings.Slots, 5)
	default:
		config.Service, config.Types = "another", []string{other{}.TaskType()}
	}
	return config
}

// slowQueue is a queue with fewer slots than the default one.
const slowQueue = "slow"

func slowSlots(slots int) int { return max(slots/4, 2) }

// rareSlots are some of a node's slots for the type that not every node has.
func rareSlots(slots, part int) map[string]int {
	return map[string]int{rare{}.TaskType(): max(slots/part, 2)}
}

// newHistory is the evidence of a run that begins now.
func (r *harness) newHistory() *history {
	h := &history{Short: r.settings.Length <= shortRun, Began: time.Now(), SlotsEach: r.settings.Slots,
		Unserved: map[string]bool{nobody{}.TaskType(): true}, Working: map[string]string{},
		TypeSlots: map[string]map[string]int{}, Limits: map[string]int{rare{}.TaskType(): r.settings.rareLimit()},
		GroupLimits: map[string]int{groupedType: 1}, GroupRates: map[string]int{ratedType: ratePerSecond},
		GroupWeights: map[string]store.Weights{rare{}.TaskType(): groupWeights}}
	for _, s := range r.slots {
		h.TypeSlots[s.name] = s.config.TypeSlots
		for _, kind := range s.config.Types {
			h.Working[kind] += s.name + " "
		}
		if s.config.Service == ourService {
			h.Slots += r.settings.Slots
		}
	}
	return h
}

// startNode starts the slot's process.
func (r *harness) startNode(s *slot) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := startProcess(s.name, r.cluster.dir, len(r.processes)+1, s.config)
	if err != nil {
		return err
	}
	r.processes = append(r.processes, p)
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return nil
}

// current is the slot's process.
func (s *slot) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// take reserves a slot for a fault.
func (s *slot) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return false
	}
	s.busy = true
	return true
}

func (s *slot) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

// unharmed says whether no fault has the slot.
func (s *slot) unharmed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.busy
}

// hold notes whether the node is being kept quiet.
func (s *slot) hold(quiet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = quiet
}

// awaitNodes waits until all nodes are up and one of them leads.
func (r *harness) awaitNodes(ctx context.Context) error {
	for {
		var live int
		err := r.admin.QueryRow(ctx, `SELECT count(*) FROM tasktable.nodes WHERE dead_at IS NULL`).Scan(&live)
		if pid, _, _, _ := r.leading(ctx); err == nil && live >= r.settings.Nodes && pid != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nodes are not up: %d of %d, %w", live, r.settings.Nodes, errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

const leadingSQL = `
SELECT leader.pid, split_part(n.host, '/', 2)::int,
    coalesce((SELECT max(a.pid) FROM pg_stat_activity AS a
        WHERE a.application_name = 'tasktable leader of node ' || n.number), 0)
FROM pg_locks AS leader JOIN pg_locks AS own ON own.pid = leader.pid AND own.granted
JOIN tasktable.nodes AS n ON n.number = own.objid::bigint
WHERE leader.locktype = 'advisory' AND leader.classid::bigint = $1 AND leader.objsubid = 2
    AND leader.objid <> 1 -- a term takes 1 for its commits, and the leader 0; a mutant's leaders take others
    AND leader.granted
    AND own.locktype = 'advisory' AND own.classid::bigint = $2 AND own.objsubid = 2
LIMIT 1`

// leading says which process leads, and by which backends: that of its session, and that on which the leader works. 0:
// none, or nobody can be asked.
func (r *harness) leading(ctx context.Context) (pid, session, works int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = r.admin.QueryRow(ctx, leadingSQL, lockClass("leader"), lockClass("node")).Scan(&session, &pid, &works)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, 0, nil
	}
	return pid, session, works, err
}

// address is where Postgres listens now.
func (r *harness) address() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster.address()
}

// startPostgres starts the server again. If its port is another by now, the wires are laid to that.
func (r *harness) startPostgres() error {
	ctx, cancel := context.WithTimeout(context.Background(), beginLimit)
	defer cancel()
	r.mu.Lock()
	before := r.cluster.address()
	err := r.cluster.start(ctx)
	r.mu.Unlock()
	if err != nil || before == r.address() {
		return err
	}
	for _, w := range r.allWires() {
		err = errors.Join(err, w.mend(r.address()))
	}
	return err
}

func (r *harness) allWires() []*wire {
	wires := append([]*wire(nil), r.wires...)
	if r.api != nil {
		wires = append(wires, r.api.back)
	}
	for _, s := range r.slots {
		wires = append(wires, s.wire, s.pools)
	}
	return wires
}

// stopNode stops a node gracefully; that it does so, and leaves nothing, is one of the promises.
func (r *harness) stopNode(p *process) {
	if err := p.stop(stopLimit); err != nil {
		r.mu.Lock()
		r.wrong = append(r.wrong, err.Error())
		r.mu.Unlock()
	}
}

// stopLimit is how long a graceful stop may take: the shutdown's time, the grace after it, and what deaf handlers take.
const stopLimit = shutdownTimeout + 2*5*time.Second + 10*time.Second

// must fails the test for what is the test's own fault.
func (r *harness) must(err error) {
	if err != nil {
		r.t.Error("the test itself: ", err)
	}
}

// remove ends whatever is left.
func (r *harness) remove() {
	for _, p := range r.processes {
		if p.running() {
			p.kill()
		}
	}
	for _, w := range r.writers {
		w.pool.Close()
	}
	if r.follower != nil {
		r.follower.stop()
	}
	if r.api != nil {
		r.api.remove()
	}
	if r.receivers != nil {
		r.receivers.close()
	}
	if r.admin != nil {
		r.admin.Close()
	}
	for _, w := range r.wires {
		w.cut()
	}
	for _, s := range r.slots {
		s.wire.cut()
		s.pools.cut()
	}
	if r.t.Failed() && os.Getenv("TASKTABLE_TORTURE_KEEP") != "" {
		logs, _ := filepath.Abs(r.cluster.dir)
		r.t.Log("kept: ", logs)
		_ = r.cluster.server.Stop()
		return
	}
	if err := r.cluster.remove(); err != nil {
		r.t.Error(err)
	}
}

package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
)

// Circuit says when a circuit opens, and for how long. The zero value has the defaults.
type Circuit struct {
	// Off turns circuits off. Then a host that fails is called again and again, by each task's own backoff.
	Off bool
	// Calls is how many calls within a minute a circuit needs before it opens, if more than half of them have failed.
	// It is 1 to 100,000. Default (0): 20.
	Calls int
	// Open is for how long a circuit opens at first. Each probe that fails doubles it. It is 1 s to 24 h. Default (0):
	// 30 s.
	Open time.Duration
	// MaxOpen is the longest open time. It is Open to 24 h. Default (0): 15 minutes, or Open if that is longer.
	MaxOpen time.Duration
}

const (
	defaultCalls   = 20
	defaultOpen    = 30 * time.Second
	defaultMaxOpen = 15 * time.Minute
)

func (c Circuit) withDefaults() Circuit {
	c.Calls, c.Open = cmp.Or(c.Calls, defaultCalls), cmp.Or(c.Open, defaultOpen)
	c.MaxOpen = cmp.Or(c.MaxOpen, max(defaultMaxOpen, c.Open))
	return c
}

// Check returns an error that names each field that breaks a rule.
func (c Circuit) Check() error {
	c = c.withDefaults()
	var errs []error
	if c.Calls < 1 || c.Calls > 100_000 {
		errs = append(errs, fmt.Errorf("Circuit.Calls must be between 1 and 100000, got %d", c.Calls))
	}
	if c.Open < time.Second || c.Open > 24*time.Hour {
		errs = append(errs, fmt.Errorf("Circuit.Open must be between 1s and 24h, got %s", c.Open))
	}
	if c.MaxOpen < c.Open || c.MaxOpen > 24*time.Hour {
		errs = append(errs, fmt.Errorf("Circuit.MaxOpen must be between Open and 24h, got %s", c.MaxOpen))
	}
	return errors.Join(errs...)
}

const (
	maxCircuits = 1000
	// maxPaths is how many paths of a host and name have a circuit of their own. All further paths share one. So paths
	// with ids in them are too many to have their own, and a host that is down still opens the circuit that they share.
	maxPaths = 20
)

// place is where a call goes to. Each place has a circuit.
type place struct {
	host string
	name string // of the payload; "": none, and then the path counts
	path string
}

// placeKey is a place. The path is a hash, because paths may be long and may contain secrets. 0 is that of all paths
// without a circuit of their own.
type placeKey struct {
	host, name string
	path       uint64
}

// circuits has the circuits of a node. It is safe for concurrent use.
type circuits struct {
	settings Circuit
	log      *slog.Logger
	seed     maphash.Seed
	now      func() time.Time

	mu    sync.Mutex
	all   map[placeKey]*circuit
	paths map[placeKey]int // how many paths of a host have a circuit of their own; the key's path is 0
}

func newCircuits(settings Circuit, log *slog.Logger) *circuits {
	return &circuits{settings: settings.withDefaults(), log: log, seed: maphash.MakeSeed(), now: time.Now,
		all: map[placeKey]*circuit{}, paths: map[placeKey]int{}}
}

// of returns the circuit of a place. c.mu is locked.
func (c *circuits) of(at place) *circuit {
	shared := placeKey{host: at.host, name: at.name}
	own := shared
	if at.name == "" {
		own.path = max(maphash.String(c.seed, at.path), 1)
	}
	if found := c.all[own]; found != nil {
		return found
	}
	now := c.now()
	if own.path != 0 && c.paths[shared] >= maxPaths {
		c.forgetIdle(now)
	}
	if own.path != 0 && c.paths[shared] >= maxPaths {
		if own = shared; c.all[own] != nil {
			return c.all[own]
		}
	}
	if len(c.all) >= maxCircuits {
		c.forgetOne(now)
	}
	made := &circuit{settings: c.settings, used: now}
	if c.all[own] = made; own.path != 0 {
		c.paths[shared]++
	}
	return made
}

func (c *circuits) forget(key placeKey) {
	delete(c.all, key)
	if shared := (placeKey{host: key.host, name: key.name}); key.path != 0 {
		if c.paths[shared]--; c.paths[shared] == 0 {
			delete(c.paths, shared)
		}
	}
}

func (c *circuits) forgetIdle(now time.Time) {
	for key, one := range c.all {
		if one.idle(now) {
			c.forget(key)
		}
	}
}

// forgetOne makes room for one circuit. If none is idle, the one that was used the longest time ago goes, and open ones
// go last.
func (c *circuits) forgetOne(now time.Time) {
	if c.forgetIdle(now); len(c.all) < maxCircuits {
		return
	}
	var oldest placeKey
	var first *circuit
	for key, one := range c.all {
		isOpen, other := one.openFor > 0, first != nil && first.openFor > 0
		if first == nil || other && !isOpen || other == isOpen && one.used.Before(first.used) {
			oldest, first = key, one
		}
	}
	c.forget(oldest)
}

// call runs do unless the circuit of the place is open. do returns what the call says about the host, in words what
// went wrong, and the error of the call. If the circuit is open, call returns a handlers.WaitError that names the host.
func (c *circuits) call(at place, task string, do func() (said verdict, fault string, err error)) (err error) {
	if c.settings.Off {
		_, _, err = do()
		return err
	}
	c.mu.Lock()
	one := c.of(at)
	ok, probe, wait := one.admit(maphash.String(c.seed, task), c.now(), rand.Float64())
	fault := one.fault
	c.mu.Unlock()
	if !ok {
		return handlers.Wait(wait, errors.New(at.waits(fault)))
	}
	said := nothing // also if do panics
	defer func() {
		c.mu.Lock()
		changed := one.end(probe, said, fault, c.now())
		openFor := one.openFor
		c.mu.Unlock()
		switch changed {
		case opened:
			c.log.Warn("webhook circuit opened: tasks for it wait", "host", at.host, "circuit", at.name, "fault", fault,
				"open_for", openFor)
		case closed:
			c.log.Info("webhook circuit closed: the host works again", "host", at.host, "circuit", at.name)
		}
	}()
	said, fault, err = do()
	return err
}

// waits is the message of a task that waits. It has no time in it, so that all tasks that wait for one host are one
// group in lists.
func (p place) waits(fault string) string {
	name := "its circuit"
	if p.name != "" {
		name = "its circuit " + p.name
	}
	return fmt.Sprintf("host %s %s, and %s is open", p.host, fault, name)
}

// open counts the open circuits.
func (c *circuits) open() (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for _, one := range c.all {
		if one.openFor > 0 && !one.idle(now) {
			count++
		}
	}
	return count
}

// register adds the gauge of open circuits to a registry.
func (c *circuits) register(to prometheus.Registerer) error {
	if to == nil {
		return nil
	}
	err := to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "tasktable", Name: "webhook_open_circuits",
		Help: "Circuits of HTTP_REQUEST that are open on this node.",
	}, func() float64 { return float64(c.open()) }))
	if err != nil {
		return fmt.Errorf("register the metrics of webhooks: %w", err)
	}
	return nil
}

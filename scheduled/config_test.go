package scheduled

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/seal"
)

// someConfig is one that New takes; its pool connects to nothing.
func someConfig(t *testing.T) Config {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	registry, err := handlers.NewRegistry(handlers.Func("JOB", func(context.Context) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	return Config{Pool: pool, Handlers: registry}
}

func TestConfigNamesEachWrongField(t *testing.T) {
	t.Parallel()
	good := someConfig(t)
	for want, change := range map[string]func(*Config){
		"Pool is required":     func(c *Config) { c.Pool = nil },
		"Handlers is required": func(c *Config) { c.Handlers = nil },
		`Schema: invalid: schema "Tasks; DROP" must be 1 to 46 of a-z, 0-9 and _`: func(c *Config) {
			c.Schema = "Tasks; DROP"
		},
		"Codec: invalid: codec must not be a pointer that is nil, got a *seal.Codec that is nil": func(c *Config) {
			c.Codec = (*seal.Codec)(nil)
		},
		"Service must be at most 512 bytes, got 513":      func(c *Config) { c.Service = strings.Repeat("x", 513) },
		`Role must be worker, leader or both, got "king"`: func(c *Config) { c.Role = "king" },
		`StrictQueues must name each queue once, and names "a" twice`: func(c *Config) {
			c.Queues, c.StrictQueues = map[string]int{"a": 1, "b": 1}, []string{"a", "b", "a"}
		},
		`StrictQueues must name queues of Queues, and "mail" is none of them`: func(c *Config) {
			c.StrictQueues = []string{"default", "mail"}
		},
		`StrictQueues: invalid: queue must be 1 to 64 of a-z, 0-9, inner - or _, got "B!"`: func(c *Config) {
			c.StrictQueues = []string{"B!"}
		},
		"Queues must name at least one queue": func(c *Config) { c.Queues = map[string]int{} },
		`Queues: invalid: queue must be 1 to 64 of a-z, 0-9, inner - or _, got "-a"`: func(c *Config) {
			c.Queues = map[string]int{"-a": 1}
		},
		`Queues: slots of "a" must be between 1 and 10000, got 0`: func(c *Config) {
			c.Queues = map[string]int{"a": 0}
		},
		`Defaults must have no Type, got "JOB"`:     func(c *Config) { c.Defaults.Type = "JOB" },
		"Defaults: invalid: backoff must be a wait": func(c *Config) { c.Defaults.Backoff = "soon" },
		`TypeSlots: slots of "JOB" must be between 1 and 10000, got 0`: func(c *Config) {
			c.TypeSlots = map[string]int{"JOB": 0}
		},
		`TypeSlots: slots of "JOB" must be between 1 and 10000, got 10001`: func(c *Config) {
			c.TypeSlots = map[string]int{"JOB": 10001}
		},
		`TypeSlots: the node must have a handler of each type, and has none of "OTHER"`: func(c *Config) {
			c.TypeSlots = map[string]int{"OTHER": 1}
		},
		`Queues: slots of "a" must be between 1 and 10000, got 10001`: func(c *Config) {
			c.Queues = map[string]int{"a": 10001}
		},
		"PollInterval must be between 1s and 1h0m0s, got 999ms": func(c *Config) {
			c.PollInterval = 999 * time.Millisecond
		},
		"PollInterval must be between 1s and 1h0m0s, got -1ns": func(c *Config) { c.PollInterval = -1 },
		"LookAhead must be between 0s and 10s, got 11s":        func(c *Config) { c.LookAhead = 11 * time.Second },
		"LookAhead must be between 0s and 10s, got -2ns":       func(c *Config) { c.LookAhead = -2 },
		"StartAllowance must be between 1s and 1h0m0s, got 1h0m0.000000001s": func(c *Config) {
			c.StartAllowance = time.Hour + 1
		},
		"StartAllowance must be between 1s and 1h0m0s, got -1s": func(c *Config) { c.StartAllowance = -time.Second },
		"ShutdownTimeout must be between 0s and 24h0m0s, got 25h0m0s": func(c *Config) {
			c.ShutdownTimeout = 25 * time.Hour
		},
		"ShutdownTimeout must be between 0s and 24h0m0s, got -1s": func(c *Config) { c.ShutdownTimeout = -time.Second },
		"EngineConns must be between 3 and 100, got 2":            func(c *Config) { c.EngineConns = 2 },
		"EngineConns must be between 3 and 100, got -1":           func(c *Config) { c.EngineConns = -1 },
	} {
		config := good
		change(&config)
		node, err := New(config)
		if node != nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "scheduled.Config: ") {
			t.Errorf("New gives %v, want %q", err, want)
		}
		if err != nil && strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("one wrong field, and more complaints: %v", err)
		}
	}
	_, err := New(Config{
		Schema: "1", Queues: map[string]int{"A": -1}, PollInterval: 1, LookAhead: time.Hour, StartAllowance: 1,
		ShutdownTimeout: -7, EngineConns: 1,
	})
	for _, field := range []string{
		"Pool", "Handlers", "Schema", `slots of "A"`, `got "A"`, "PollInterval", "LookAhead", "StartAllowance",
		"ShutdownTimeout", "EngineConns",
	} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("all wrong, and %s is not named: %v", field, err)
		}
	}
}

func TestConfigTakesTheLimits(t *testing.T) {
	t.Parallel()
	good := someConfig(t)
	for name, change := range map[string]func(*Config){
		"least": func(c *Config) {
			c.Schema, c.Service, c.Queues = "_", "s", map[string]int{"0": 1}
			c.PollInterval, c.LookAhead, c.StartAllowance, c.ShutdownTimeout, c.EngineConns = time.Second, -1,
				time.Second, -1, 3
			c.Retention = -1
		},
		"most": func(c *Config) {
			c.Schema, c.Service, c.Queues = strings.Repeat("s", 46), strings.Repeat("s", 512), map[string]int{
				strings.Repeat("q", 64): 10000, "b": 1,
			}
			c.PollInterval, c.LookAhead, c.StartAllowance, c.ShutdownTimeout, c.EngineConns = time.Hour, 10*time.Second,
				time.Hour, 24*time.Hour, 100
			c.Retention, c.RetentionByType = store.MaxRetention, map[string]time.Duration{"LOG": -1, "JOB": time.Minute}
		},
	} {
		config := good
		change(&config)
		node, err := New(config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := node.config
		got.Backoff, config.Backoff, config.Role = nil, nil, RoleBoth
		config.Version, config.Logger, config.LogErrors = "unknown", slog.Default(), new(true)
		if !reflect.DeepEqual(got, config) {
			t.Errorf("%s: %+v became %+v", name, config, got)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	given := someConfig(t)
	node, err := New(given)
	if err != nil {
		t.Fatal(err)
	}
	got := node.config
	if got.Schema != "tasktable" || got.Service == "" || strings.Contains(got.Service, "/") ||
		got.Version != "unknown" ||
		!reflect.DeepEqual(got.Queues, map[string]int{"default": 100}) || got.PollInterval != time.Minute ||
		got.LookAhead != time.Second ||
		got.StartAllowance != time.Minute || got.ShutdownTimeout != 30*time.Second || got.EngineConns != 6 ||
		got.Logger == nil ||
		got.Backoff == nil {
		t.Errorf("defaults %+v", got)
	}
	for name, codec := range map[string]store.Codec{"no codec": nil, "a codec": &seal.Codec{}} {
		config := given
		config.Codec = codec
		if node, err = New(config); err != nil || *node.config.LogErrors != (codec == nil) {
			t.Errorf("with %s errors are logged: %t, %v", name, *node.config.LogErrors, err)
		}
	}
	queues := map[string]int{"a": 1}
	given.Queues = queues
	if node, err = New(given); err != nil {
		t.Fatal(err)
	}
	queues["b"] = 0 // the node has its own copy
	if len(node.config.Queues) != 1 {
		t.Errorf("queues %v", node.config.Queues)
	}
}

// The session connects with the pool's settings, a password of a short life included.
func TestConfigConnect(t *testing.T) {
	t.Parallel()
	given := someConfig(t)
	settings := given.Pool.Config()
	errNo := errors.New("no password today")
	settings.BeforeConnect = func(_ context.Context, config *pgx.ConnConfig) error {
		if config.Host != "127.0.0.1" || config.User != "nobody" {
			t.Errorf("connects to %s as %s", config.Host, config.User)
		}
		return errNo
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	given.Pool = pool
	if _, err := given.connect(t.Context()); !errors.Is(err, errNo) {
		t.Errorf("error %v", err)
	}
}

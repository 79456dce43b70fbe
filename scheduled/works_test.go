package scheduled

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

func TestConfigNamesEachWrongSettingOfOperations(t *testing.T) {
	t.Parallel()
	good := someConfig(t)
	tick := func(id string) store.Task {
		return store.Task{ID: id, Payload: enginetest.Job{Name: id}, Recurrence: &store.Recurrence{Cron: "@daily"}}
	}
	for want, change := range map[string]func(*Config){
		"Recurring[1] needs a Recurrence": func(c *Config) {
			c.Recurring = []store.Task{tick("a"), {Payload: enginetest.Job{Name: "b"}}}
		},
		"Recurring[0] needs a Recurrence": func(c *Config) {
			c.Recurring = []store.Task{{Payload: store.JSON(`{"type":"JOB"}`)}}
		},
		`Recurring[2]: id must differ from those before it, got "a" again`: func(c *Config) {
			c.Recurring = []store.Task{tick("a"), tick("b"), tick("a")}
		},
		`Recurring[1]: id must differ from those before it, got "task-JOB-a"`: func(c *Config) {
			keyed := store.Task{Payload: enginetest.Job{Name: "a"}, Recurrence: &store.Recurrence{Cron: "@daily"}}
			c.Recurring = []store.Task{keyed, keyed}
		},
		"Recurring[0]: invalid: id must be given for a recurring task, or its payload be Keyed": func(c *Config) {
			c.Recurring = []store.Task{{
				Payload: store.JSON(`{"type":"JOB"}`), Recurrence: &store.Recurrence{Cron: "@daily"},
			}}
		},
		"cron must be 5 fields (minute, hour, day of month, month, day of week)": func(c *Config) {
			c.Recurring = []store.Task{store.Cron("JOB", "every day")}
		},
		`time_zone must be an IANA zone, such as Europe/Berlin or UTC, got "Mars/Olympus"`: func(c *Config) {
			c.Recurring = []store.Task{tick("a")}
			c.Recurring[0].Recurrence.TimeZone = "Mars/Olympus"
		},
		`Recurring[0]: invalid: overlap must be skip, allow or cancel_running, got "sometimes"`: func(c *Config) {
			c.Recurring = []store.Task{tick("a")}
			c.Recurring[0].Recurrence.Overlap = "sometimes"
		},
		"Recurring[0]: invalid: payload must not be nil": func(c *Config) {
			c.Recurring = []store.Task{{ID: "a", Recurrence: &store.Recurrence{Cron: "@daily"}}}
		},
		"Recurring[1]: invalid: payload must not be nil": func(c *Config) {
			c.Recurring = []store.Task{
				tick("a"), {Payload: (*enginetest.Job)(nil), Recurrence: &store.Recurrence{Cron: "@daily"}},
			}
		},
		"Paused[0]: invalid: scope must be Everything, Queue or Type, got the zero Scope": func(c *Config) {
			c.Paused = []store.Scope{{}}
		},
		`Paused[1]: invalid: queue must be 1 to 64 of a-z, 0-9, inner - or _, got "No!"`: func(c *Config) {
			c.Paused = []store.Scope{store.Everything(), store.Queue("No!")}
		},
		`Paused[0]: invalid: type must be 2 to 127 letters`: func(c *Config) {
			c.Paused = []store.Scope{store.Type("")}
		},
		"Retention must be between 1m0s and 876600h0m0s, got 59s":  func(c *Config) { c.Retention = 59 * time.Second },
		"Retention must be between 1m0s and 876600h0m0s, got -2ns": func(c *Config) { c.Retention = -2 },
		"Retention must be between 1m0s and 876600h0m0s, got 876600h0m0.000000001s": func(c *Config) {
			c.Retention = store.MaxRetention + 1
		},
		"RetentionByType[JOB] must be between 1m0s and 876600h0m0s, got 0s": func(c *Config) {
			c.RetentionByType = map[string]time.Duration{"JOB": 0}
		},
		`RetentionByType: invalid: type must be 2 to 127 letters, digits or _-[]<>/.·:+, got "no type"`: func(
			c *Config,
		) {
			c.RetentionByType = map[string]time.Duration{"no type": time.Hour}
		},
	} {
		config := good
		change(&config)
		node, err := New(config)
		if node != nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("New gives %v, want %q", err, want)
		}
	}
	good.Recurring = []store.Task{
		tick("a"), {Payload: enginetest.Job{Name: "a"}, Recurrence: &store.Recurrence{Cron: "@daily"}},
		store.Cron("JOB", "*/5 * * * *"),
	}
	good.Paused = []store.Scope{store.Everything(), store.Queue("default"), store.Type("OTHER")}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestConfigKeepsItsOwn(t *testing.T) {
	t.Parallel()
	config := someConfig(t)
	config.Paused, config.RetentionByType = []store.Scope{store.Queue("a")}, map[string]time.Duration{"JOB": time.Hour}
	config.Recurring = []store.Task{store.Cron("JOB", "@daily")}
	config.TypeSlots = map[string]int{"JOB": 2}
	node, err := New(config)
	enginetest.OK(t, err)
	config.Paused[0], config.RetentionByType["JOB"], config.Recurring[0] = store.Everything(), -1, store.Task{}
	config.TypeSlots["JOB"] = 3
	got := node.config
	if got.TypeSlots["JOB"] != 2 || got.Paused[0] != store.Queue("a") || got.RetentionByType["JOB"] != time.Hour ||
		got.Recurring[0].ID != "recurring-JOB" || got.Retention != 90*24*time.Hour {
		t.Errorf("config %+v", got)
	}
	if config.Recurring = nil; config.withDefaults().Recurring != nil {
		t.Error("nil became a list: the node would declare that there are none")
	}
	if config.Recurring = []store.Task{}; config.withDefaults().Recurring == nil {
		t.Error("an empty list became nil: the node would say nothing")
	}
}

// What a node is told not to work it does not list: the leader claims nothing of it for the node.
func TestConfigWorks(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context) error { return nil }
	registry, err := handlers.NewRegistry(
		handlers.Func("AA", nothing), handlers.Func("BB", nothing), handlers.Func("CC", nothing),
	)
	enginetest.OK(t, err)
	for want, paused := range map[string][]store.Scope{
		"map[bulk:2 default:5] [AA BB CC]": {store.Queue("other"), store.Type("default"), store.Type("OTHER")},
		"map[default:5] [AA BB CC]":        {store.Queue("bulk")},
		"map[bulk:2] [BB]":                 {store.Queue("default"), store.Type("AA"), store.Type("CC")},
		"map[] [AA BB CC]":                 {store.Queue("default"), store.Queue("bulk")},
		"map[] []":                         {store.Everything()},
	} {
		config := Config{Queues: map[string]int{"default": 5, "bulk": 2}, Handlers: registry, Paused: paused}
		queues, types := config.works()
		slices.Sort(types)
		if got := fmt.Sprint(queues, " ", types); got != want {
			t.Errorf("without %v: %s, want %s", paused, got, want)
		}
		if len(config.Queues) != 2 || config.Queues["default"]+config.Queues["bulk"] != 7 ||
			len(registry.Types()) != 3 {
			t.Errorf("the configuration itself was changed: %v %v", config.Queues, registry.Types())
		}
	}
}

// A leader works nothing, whatever else it is told. A strict order shares the slots, and has only queues that are worked.
func TestConfigRegistersTheRole(t *testing.T) {
	t.Parallel()
	config := someConfig(t)
	config.Queues = map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
	config.StrictQueues, config.Paused = []string{"c", "b", "a"}, []store.Scope{store.Queue("b")}
	for role, want := range map[Role]string{
		"":         `true {"a":1,"c":3,"d":4} [JOB] [c a] true`,
		RoleBoth:   `true {"a":1,"c":3,"d":4} [JOB] [c a] true`,
		RoleWorker: `false {"a":1,"c":3,"d":4} [JOB] [c a] true`,
		RoleLeader: `true {} [] [] true`,
	} {
		config.Role = role
		node, err := New(config)
		enginetest.OK(t, err)
		r := node.config.registration(false)
		got := fmt.Sprint(r.MayLead, " ", r.Queues, " ", r.Types, " ", r.StrictQueues, " ", r.ShareSlots)
		if got != want {
			t.Errorf("%q: %s, want %s", role, got, want)
		}
	}
	config.StrictQueues, config.Role = nil, ""
	if config.withDefaults().ShareSlots {
		t.Error("slots are shared without a strict order")
	}
}

// What is shared is the slots of the queues that the node works: on the node itself, for River and for the leader.
func TestConfigWorkingSlots(t *testing.T) {
	t.Parallel()
	registry, err := handlers.NewRegistry(handlers.Func("AA", func(context.Context) error { return nil }))
	enginetest.OK(t, err)
	config := Config{
		Queues: map[string]int{"default": 5, "bulk": 2, "mail": 1}, Handlers: registry,
		Paused: []store.Scope{store.Queue("mail")},
	}
	if got := fmt.Sprint(config.workingSlots()); got != "map[bulk:2 default:5]" {
		t.Errorf("apart: %s", got)
	}
	config.ShareSlots = true
	if got := fmt.Sprint(config.workingSlots(), config.Queues); got !=
		"map[bulk:7 default:7] map[bulk:2 default:5 mail:1]" {
		t.Errorf("shared: %s", got)
	}
}

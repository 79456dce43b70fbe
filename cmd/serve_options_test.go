package cmd

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// The bounds are written twice, since a message must name the option; so they must stay the same.
func TestBoundsAreThoseOfTheConfig(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/x")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	registry, err := handlers.NewRegistry(handlers.Func("NOTHING", func(context.Context) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	accepts := func(s engineSettings) bool {
		config := scheduled.Config{Pool: pool, Handlers: registry, Logger: slog.New(slog.DiscardHandler)}
		s.apply(&config)
		_, err := scheduled.New(config)
		return err == nil
	}
	for _, test := range []struct {
		flag        string
		least, most string
		outside     []func(*engineSettings)
	}{
		{"poll-interval", "1s", "1h", []func(*engineSettings){
			func(s *engineSettings) { s.pollInterval = time.Second - 1 },
			func(s *engineSettings) { s.pollInterval = time.Hour + 1 }}},
		{"look-ahead", "0", "10s", []func(*engineSettings){
			func(s *engineSettings) { s.lookAhead = -2 },
			func(s *engineSettings) { s.lookAhead = 10*time.Second + 1 }}},
		{"start-allowance", "1s", "1h", []func(*engineSettings){
			func(s *engineSettings) { s.startAllowance = time.Second - 1 },
			func(s *engineSettings) { s.startAllowance = time.Hour + 1 }}},
		{"shutdown-timeout", "0", "24h", []func(*engineSettings){
			func(s *engineSettings) { s.shutdownTimeout = -2 },
			func(s *engineSettings) { s.shutdownTimeout = 24*time.Hour + 1 }}},
		{"engine-conns", "3", "100", []func(*engineSettings){
			func(s *engineSettings) { s.engineConns = 2 }, func(s *engineSettings) { s.engineConns = 101 }}},
		{"queue", "a=1", "a=10000", []func(*engineSettings){
			func(s *engineSettings) { s.queues = map[string]int{"a": 0} },
			func(s *engineSettings) { s.queues = map[string]int{"a": 10001} }}},
		{"pause", "all", "queue:a,type:SEND:MAIL", []func(*engineSettings){
			func(s *engineSettings) { s.paused = []store.Scope{{}} },
			func(s *engineSettings) { s.paused = []store.Scope{store.Queue("A")} }}},
		{"retention", "1m", "876600h", []func(*engineSettings){
			func(s *engineSettings) { s.retention = time.Minute - 1 },
			func(s *engineSettings) { s.retention = store.MaxRetention + 1 }}},
		{"retention-type", "LOG=1m", "LOG=876600h,SEND_EMAIL=off", []func(*engineSettings){
			func(s *engineSettings) { s.retentionByType = map[string]time.Duration{"LOG": time.Minute - 1} },
			func(s *engineSettings) { s.retentionByType = map[string]time.Duration{"a,b": time.Hour} }}},
	} {
		t.Run(test.flag, func(t *testing.T) {
			for _, given := range []string{test.least, test.most} {
				var settings engineSettings
				resolveArgs(t, settings.options(), nil, []string{"--" + test.flag + "=" + given})
				if !accepts(settings) {
					t.Errorf("scheduled.New refuses %s", given)
				}
			}
			for i, set := range test.outside {
				var settings engineSettings
				resolveArgs(t, settings.options(), nil, nil)
				set(&settings)
				if accepts(settings) {
					t.Errorf("scheduled.New accepts what the option refuses (%d)", i)
				}
			}
		})
	}
}

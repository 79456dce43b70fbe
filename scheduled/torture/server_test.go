//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/scheduled/api/keys"
)

// serverVariable holds a serverConfig as JSON where this test binary is to be the process of the HTTP API.
const serverVariable = "TASKTABLE_TORTURE_SERVER"

type serverConfig struct{ URL string }

// callerName begins the names of the writers that work over HTTP. The API's connections have it, too: what they do to
// tasks is what those writers asked for.
const callerName = "writer-http"

// callerRate is how many calls a second the writers may make. Now and then they make more.
const callerRate = 60

// server is the place of the API. Its listening socket and its wires stay when the process is another. Calls that
// arrive while there is no process wait in the socket.
type server struct {
	socket *os.File
	front  *wire // from the writers
	back   *wire // to Postgres
	secret string
	config serverConfig

	mu        sync.Mutex
	process   *process
	processes []*process // all that ever ran
}

// openServer starts the API with its wires, and makes the key of the writers.
func (r *harness) openServer(ctx context.Context) error {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	defer func() { _ = listener.Close() }() // the file is another descriptor of the socket
	s := &server{}
	r.api = s
	if s.socket, err = listener.File(); err != nil {
		return fmt.Errorf("keep the API's socket: %w", err)
	}
	if s.front, err = newWire(callerName, listener.Addr().String()); err != nil {
		return err
	}
	if s.back, err = newWire(callerName+" server", r.cluster.address()); err != nil {
		return err
	}
	if s.config.URL, err = r.cluster.urlAt(s.back.address); err != nil {
		return err
	}
	s.secret, _, err = keys.New(keys.Config{}).Create(ctx, r.admin, keys.NewKey{
		Name: callerName, Scopes: keys.Scopes(), Rate: callerRate,
	})
	if err != nil {
		return err
	}
	return s.start()
}

// start starts a process.
func (s *server) start() error {
	text, err := json.Marshal(s.config)
	if err != nil {
		return fmt.Errorf("encode the API's configuration: %w", err)
	}
	p, err := launch(callerName+" server", []string{serverVariable + "=" + string(text)}, s.socket)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.processes = p, append(s.processes, p)
	return nil
}

// current is the process of the API.
func (s *server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// mend makes the wires whole again.
func (s *server) mend(postgres string) error {
	return errors.Join(s.back.mend(postgres), s.front.mend(s.front.upstream()))
}

// remove ends what is left.
func (s *server) remove() {
	for _, p := range s.processes {
		if p.running() {
			p.kill()
		}
	}
	for _, w := range []*wire{s.front, s.back} {
		if w != nil {
			w.cut()
		}
	}
	if s.socket != nil {
		_ = s.socket.Close()
	}
}

// serveCalls is the process of the API. It takes its socket from the test, as from a supervisor.
func serveCalls(ctx context.Context, text string, log *slog.Logger) error {
	var config serverConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	listener, err := net.FileListener(os.NewFile(3, "socket"))
	if err != nil {
		return fmt.Errorf("take the socket: %w", err)
	}
	settings, err := writerPool(config.URL, callerName)
	if err != nil {
		return err
	}
	settings.MaxConns = 8
	// Not ctx: the pool outlives the signal.
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), settings)
	if err != nil {
		return fmt.Errorf("open pool: %w", err)
	}
	defer closeSoon(pool)
	authenticator := keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: keys.New(keys.Config{}), DB: pool})
	service, err := api.New(api.Config{
		Pool: pool, Authenticate: api.ByKey(authenticator), Timeout: opLimit, Logger: log,
	})
	if err != nil {
		return err
	}
	server := &http.Server{Handler: service.Handler(), ReadTimeout: opLimit, ErrorLog: slog.NewLogLogger(log.Handler(),
		slog.LevelWarn)}
	var stopping sync.WaitGroup
	stopping.Go(func() {
		<-ctx.Done()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	stopping.Wait()
	return nil
}

// clipped is up to how much of an answer comes through a wire that is cut in the middle of it.
const clipped = 700

// disturbServer does something to the API every now and then until ctx is done, whatever is done to the nodes besides.
func (r *harness) disturbServer(ctx context.Context) {
	d := &disturber{harness: r, random: r.settings.random(2)}
	for d.pause(ctx) == nil {
		b := &blow{disturber: d, random: d.random, fault: fault{Kind: faultServer}}
		b.server(ctx, serverDice.roll(d.random))
	}
}

// serverDice chooses what is done to the API.
var serverDice = newDice([]weighted{
	{"kill", 4}, {"stop", 1}, {"freeze", 2}, {"cut", 2}, {"lost answers", 4}, {"lost calls", 1}, {"half answers", 3},
	{"slow", 2}, {"lost database", 2}, {"lost commits", 2},
}, nil)

// server does something to the API, or to its network. Nothing of it concerns the nodes.
func (b *blow) server(ctx context.Context, what string) {
	s := b.api
	b.Target = callerName + ": " + what
	made := b.begin()
	defer b.timeline.end(made)
	long := 300*time.Millisecond + b.draw(2*time.Second)
	switch what {
	case "kill":
		s.current().kill()
		_ = wait(ctx, b.draw(time.Second))
		b.must(s.start())
		return
	case "stop":
		b.stopNode(s.current())
		b.must(s.start())
		return
	case "freeze":
		s.current().freeze(ctx, long)
		return
	case "cut":
		s.front.cut()
		long /= 4
	case "lost answers":
		b.must(s.front.hush("downstream"))
	case "lost calls":
		b.must(s.front.hush("upstream"))
	case "half answers":
		b.must(s.front.clip(1 + b.random.Int64N(clipped)))
	case "slow":
		b.must(s.front.slow(b.draw(200*time.Millisecond), b.draw(800*time.Millisecond), b.draw(100*time.Millisecond)))
	case "lost database":
		s.back.cut()
		long /= 2
	case "lost commits":
		b.must(s.back.hush("downstream"))
	}
	_ = wait(ctx, long)
	b.must(s.mend(b.address()))
}

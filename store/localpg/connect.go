//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectLimit is the limit for one attempt to connect. A server that is stopped but not dead accepts connections and
// never answers.
const connectLimit = 5 * time.Second

func address(port int, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

func connect(ctx context.Context, port int, password string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	return pgx.Connect(ctx, address(port, password, "postgres")+"&"+Mutual)
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	_ = conn.Close(ctx)
}

// instance is a server as its pid file describes it.
type instance struct {
	pid, port int
	data      string
}

// instances reads the pid files. They have one item on each line: process id, data folder, start time, port and
// others.
func (f *folder) instances() []instance {
	var found []instance
	for _, major := range f.majors() {
		data := f.path(dataName(major))
		text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
		if err != nil {
			continue
		}
		lines := strings.Split(string(text), "\n")
		if len(lines) < 4 {
			continue // the server is just writing it
		}
		pid, pidErr := strconv.Atoi(strings.TrimSpace(lines[0]))
		port, portErr := strconv.Atoi(strings.TrimSpace(lines[3]))
		if pidErr == nil && portErr == nil && pid > 1 {
			found = append(found, instance{pid, port, data})
		}
	}
	return found
}

var errNobody = errors.New("no server answers")

// probe returns the server that runs on this folder and answers.
func (f *folder) probe(ctx context.Context, password string) (instance, error) {
	failed := errNobody
	for _, candidate := range f.instances() {
		err := answers(ctx, candidate.port, password, candidate.data)
		if err == nil {
			return candidate, nil
		}
		failed = err
	}
	return instance{}, failed
}

// answers checks that the server on the port is the one of this data folder, because another server may have taken
// the port.
func answers(ctx context.Context, port int, password, data string) error {
	conn, err := connect(ctx, port, password)
	if err != nil {
		return fmt.Errorf("connecting to port %d: %w", port, err)
	}
	defer closeConn(conn)
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	var dir string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		return fmt.Errorf("asking the server on port %d for its data folder: %w", port, err)
	}
	if dir != data {
		return fmt.Errorf("port %d: a server on %s: %w", port, dir, errNobody)
	}
	return nil
}

// isRefusal reports whether the error is a wrong password, so that waiting does not help. Otherwise the server may
// not be ready.
func isRefusal(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && strings.HasPrefix(refused.Code, "28")
}

func createDatabase(ctx context.Context, port int, password, name string) error {
	conn, err := connect(ctx, port, password)
	if err != nil {
		return fmt.Errorf("connecting to create database %q: %w", name, err)
	}
	defer closeConn(conn)
	var there bool
	const exists = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
	if err := conn.QueryRow(ctx, exists, name).Scan(&there); err != nil {
		return fmt.Errorf("looking for database %q: %w", name, err)
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("creating database %q: %w", name, err)
	}
	return nil
}

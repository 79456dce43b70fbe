// Package container lets package storetest run the tests of a process on a Postgres in a container, if a Docker
// daemon answers. A test package only has to import it:
//
//	import _ "github.com/tasktable/tasktable/store/storetest/container"
//
// It is separate from storetest because it needs testcontainers, which needs about fifty other modules.
package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/tasktable/tasktable/store/storetest"
)

const (
	image       = "postgres:17-alpine"
	dockerLimit = time.Second
	reachLimit  = time.Second
	portLimit   = 5 * time.Second // the server has said by then that it is ready
)

var used atomic.Bool

func init() { storetest.Register(start) }

// Used reports whether this process has started a container. If so, a goroutine keeps a connection open until the
// process ends. The end of the connection removes the container.
func Used() bool { return used.Load() }

// start starts a container. It returns a nil base if no Docker daemon answers.
func start(ctx context.Context) (base *url.URL, stop func() error, err error) {
	if !dockerAnswers(ctx) {
		return nil, nil, nil
	}
	if err := hostAnswers(ctx); err != nil {
		return nil, nil, err
	}
	return startContainer(ctx)
}

// hostVariable makes testcontainers look for the ports of containers at another address than it would choose.
const hostVariable = "TESTCONTAINERS_HOST_OVERRIDE"

// hostAnswers checks that this process reaches the address at which it would look for the container's port. Otherwise
// each test process would start a container, and wait a minute for its port.
func hostAnswers(ctx context.Context) error {
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return fmt.Errorf("asking for Docker's host: %w", err)
	}
	defer func() { _ = provider.Close() }()
	if err := lookHere(ctx, provider.Client()); err != nil {
		return err
	}
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return fmt.Errorf("asking for Docker's host: %w", err)
	}
	return reachable(ctx, host)
}

// lookHere sets the variable if the daemon runs on this machine. On a machine with a file /.dockerenv, as dev
// containers and some virtual machines have, testcontainers would take the default gateway for Docker's host.
func lookHere(ctx context.Context, docker client.NetworkAPIClient) error {
	if _, given := os.LookupEnv(hostVariable); given {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dockerLimit)
	defer cancel()
	bridge, err := docker.NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{})
	if err != nil {
		return fmt.Errorf("asking Docker for its network: %w", err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("reading this machine's addresses: %w", err)
	}
	for _, config := range bridge.Network.IPAM.Config {
		gateway := config.Gateway
		if !gateway.IsValid() { // it is then the first address
			gateway = config.Subnet.Masked().Addr().Next()
		}
		if slices.ContainsFunc(own, func(address net.Addr) bool {
			network, ok := address.(*net.IPNet)
			return ok && network.IP.String() == gateway.String()
		}) {
			return os.Setenv(hostVariable, "127.0.0.1")
		}
	}
	return nil
}

// reachable takes a refused connection for an answer: nothing needs to listen on the port.
func reachable(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, "1"))
	if err == nil {
		return conn.Close()
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return fmt.Errorf("containers would be at %s, which does not answer; set %s: %w", host, hostVariable, err)
}

// dockerAnswers asks the daemon itself, because an installed docker command or a socket file does not mean that it
// runs.
func dockerAnswers(ctx context.Context) (answers bool) {
	ctx, cancel := context.WithTimeout(ctx, dockerLimit)
	defer cancel()
	defer func() {
		if recover() != nil { // the library panics on some broken settings
			answers = false
		}
	}()
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = docker.Close() }()
	_, err = docker.Ping(ctx, client.PingOptions{})
	return err == nil
}

func startContainer(ctx context.Context) (base *url.URL, stop func() error, err error) {
	used.Store(true)
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("testcontainers: %v", fault)
		}
	}()
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts("5432/tcp"),
		testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": "tasktable", "POSTGRES_DB": "tasktable"}),
		testcontainers.WithCmd("postgres", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=800",
			"-c", "max_prepared_transactions=10"),
		// The line must occur twice, because the image starts a server to set itself up, and then the real one.
		testcontainers.WithWaitStrategy(
			wait.ForLog("database system is ready to accept connections").
				WithOccurrence(2).WithStartupTimeout(time.Minute),
			wait.ForListeningPort("5432/tcp").WithStartupTimeout(portLimit),
		),
	)
	terminate := func() error { return testcontainers.TerminateContainer(container) }
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("starting %s: %w", image, err), terminate())
	}
	host, err := container.Host(ctx)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading the container's host: %w", err), terminate())
	}
	port, err := container.MappedPort(ctx, "5432/tcp")
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading the container's port: %w", err), terminate())
	}
	return &url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword("postgres", "tasktable"),
		Host:     net.JoinHostPort(host, port.Port()),
		Path:     "/tasktable",
		RawQuery: "sslmode=disable",
	}, terminate, nil
}

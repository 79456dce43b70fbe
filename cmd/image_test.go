package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// imageVariable turns on the test that builds the image, which takes minutes: make image.
const imageVariable = "TASKTABLE_TEST_IMAGE"

// slowSetup makes the image of Postgres take long to set its data folder up, as a slow disk does. It also gives the
// node a port of its own.
const slowSetup = `services:
  postgres:
    volumes: ["SETUP:/docker-entrypoint-initdb.d:ro"]
  tasktable:
    ports: !override ["127.0.0.1::8080"]
`

// TestImage does as scheduled/DEPLOYING.md says: it builds the image, and serves by compose.yaml.
func TestImage(t *testing.T) {
	if os.Getenv(imageVariable) == "" {
		t.Skip("make image runs it")
	}
	const image, version = "tasktable:test", "v0.0.0-test"
	docker(t, "docker", "build", "--build-arg", "VERSION="+version, "--tag", image, "..")
	if said := docker(t, "docker", "run", "--rm", image, "--version"); !strings.Contains(said, version) {
		t.Errorf("the image's version is %s", said)
	}
	said, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", image).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "there is no --database-url (DATABASE_URL)") {
		t.Errorf("without a database: %v, %s", err, said)
	}

	buildsDependenciesOnce(t)

	c := newComposition(t)
	c.run("up", "--build", "--detach", "--wait", "--wait-timeout", "240")
	id := strings.TrimSpace(c.run("ps", "--quiet", "tasktable"))
	restarts := strings.TrimSpace(docker(t, "docker", "inspect", "--format", "{{.RestartCount}}", id))
	if restarts != "0" {
		t.Errorf("the node was started again %s times, because Postgres was not ready", restarts)
	}
	key := strings.TrimSpace(c.run("exec", "-T", "tasktable", "/tasktable", "keys", "create", "me", "--scope",
		"read,schedule,operate"))
	base := "http://" + strings.TrimSpace(c.run("port", "tasktable", "8080"))
	keyed := []string{"Authorization", "Bearer " + key, "Content-Type", "application/json"}
	if code, _ := send(t, http.DefaultClient, http.MethodPut, base+"/v1/tasks/hello",
		`{"payload": {"type": "LOG", "message": "hi"}}`, keyed...); code != http.StatusCreated {
		t.Errorf("schedule: %d", code)
	}
	code, body := send(t, http.DefaultClient, http.MethodGet, base+"/v1/tasks/hello?wait=30s", "", keyed...)
	var task struct{ Status string }
	if err := json.Unmarshal([]byte(body), &task); err != nil || code != http.StatusOK || task.Status != "COMPLETED" {
		t.Errorf("the task: %d %s (%v)", code, body, err)
	}
	if code, body := get(t, base+"/"); !strings.Contains(body, "Sign in") {
		t.Errorf("the dashboard: %d", code)
	}
	before := time.Now()
	c.run("stop", "tasktable")
	if took := time.Since(before); took > time.Minute {
		t.Errorf("the node took %s to stop", took)
	}
}

// buildsDependenciesOnce sees that a changed source file builds no package of another module anew: they have been built
// in a stage that stays the same.
func buildsDependenciesOnce(t *testing.T) {
	t.Helper()
	const image = "tasktable:test-dependencies"
	layers := func(source string) string {
		docker(t, "docker", "build", "--target", "dependencies", "--tag", image, source)
		return docker(t, "docker", "inspect", "--format", "{{json .RootFS.Layers}}", image)
	}
	before := layers("..")
	compiled := docker(t, "docker", "run", "--rm", image, "sh", "-c",
		"go build -x $(cat /packages) 2>&1 | grep /compile || true")
	if compiled != "" {
		t.Errorf("the stage has not built all packages:\n%s", compiled)
	}
	changed := t.TempDir()
	copied := []string{"cp", "-Rp"} // with the modes, which Docker compares
	for _, name := range []string{"Dockerfile", ".dockerignore", "go.mod", "go.sum", "main.go", "cmd", "handlers",
		"migrations", "scheduled", "store"} {
		copied = append(copied, filepath.Join("..", name))
	}
	docker(t, append(copied, changed)...)
	program, err := os.OpenFile(filepath.Join(changed, "main.go"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = program.WriteString("// a change\n")
		err = errors.Join(err, program.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if after := layers(changed); after != before {
		t.Errorf("the layers were %s, and are %s", before, after)
	}
}

// composition is what one compose file runs.
type composition struct {
	t    *testing.T
	base []string
}

func newComposition(t *testing.T) *composition {
	t.Helper()
	c := &composition{t: t, base: []string{"docker", "compose"}}
	if exec.CommandContext(t.Context(), "docker", "compose", "version").Run() != nil {
		c.base = []string{"docker-compose"}
	}
	setup := t.TempDir()
	script := []byte("sleep 15\n")
	if err := os.Chmod(setup, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(setup, "slow.sh"), script, 0o644); err != nil {
		t.Fatal(err)
	}
	c.base = append(c.base, "--project-name", fmt.Sprintf("tasktable-test-%d", os.Getpid()),
		"--file", "../compose.yaml", "--file", written(t, "slow.yaml", strings.ReplaceAll(slowSetup, "SETUP", setup)))
	t.Setenv("POSTGRES_PASSWORD", "not-a-secret")
	t.Cleanup(func() { _ = exec.Command(c.base[0], append(c.base[1:], "down", "--volumes")...).Run() })
	return c
}

func (c *composition) run(args ...string) string {
	c.t.Helper()
	return docker(c.t, slices.Concat(c.base, args)...)
}

// docker runs a command, mostly one of Docker, and returns its output.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

package cmd

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled"
)

// deployingBlock is the one block of the page on deployment that is in the language and contains the text.
func deployingBlock(t *testing.T, language, with string) string {
	t.Helper()
	var found []string
	for _, rest := range strings.Split(readFile(t, "scheduled/DEPLOYING.md"), "\n```"+language+"\n")[1:] {
		if code, _, _ := strings.Cut(rest, "\n```"); strings.Contains(code, with) {
			found = append(found, code)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of %s have %q", len(found), language, with)
	}
	return found[0]
}

// stopsWithin is how long a node takes to stop at most: its handlers' time, then 10 s for what is interrupted, and
// the closing of the connections and of the HTTP server.
const stopsWithin = scheduled.DefaultShutdownTimeout + 10*time.Second + closeLimit + httpStopWithin

// takes has the program check options, as serve would.
func takes(t *testing.T, variables, args []string) {
	t.Helper()
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("does not serve: %q", args)
	}
	run(t, variables, append([]string{"config"}, args[1:]...)...).want(t, exitOK)
}

// manifest is what of a Deployment concerns the program.
type manifest struct {
	Kind string
	Spec struct {
		Selector struct{ MatchLabels map[string]string }
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				TerminationGracePeriodSeconds int
				Containers                    []struct {
					Args  []string
					Env   []struct{ Name string }
					Ports []struct {
						Name          string
						ContainerPort int
					}
					LivenessProbe, ReadinessProbe probe
					SecurityContext               struct {
						RunAsNonRoot, ReadOnlyRootFilesystem bool
						AllowPrivilegeEscalation             *bool
						Capabilities                         struct{ Drop []string }
						SeccompProfile                       struct{ Type string }
					}
				}
			}
		}
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string }

	PeriodSeconds, TimeoutSeconds, FailureThreshold int
}

// restricted fails the test unless the containers meet the standard "restricted" of Kubernetes, which refuses others.
func (m manifest) restricted(t *testing.T) {
	t.Helper()
	for _, container := range m.Spec.Template.Spec.Containers {
		if c := container.SecurityContext; !c.RunAsNonRoot || !c.ReadOnlyRootFilesystem ||
			c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation ||
			!slices.Equal(c.Capabilities.Drop, []string{"ALL"}) || c.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("%+v", c)
		}
	}
}

// documented is the manifest of a kind in DEPLOYING.md, which asks for no more rights than it needs.
func documented(t *testing.T, kind string) (m manifest) {
	t.Helper()
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(deployingBlock(t, "yaml", "kind: "+kind)), &node); err != nil {
		t.Fatal(err)
	}
	inCamelCase(&node)
	if err := node.Decode(&m); err != nil {
		t.Fatal(err)
	}
	m.restricted(t)
	return m
}

// inCamelCase is the manifest with the keys in the case of the structs, which have no tags.
func inCamelCase(node *yaml.Node) {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			child.Value = strings.ToLower(child.Value)
		}
		inCamelCase(child)
	}
}

func TestDocumentedDeployment(t *testing.T) {
	t.Parallel()
	m := documented(t, "Deployment")
	pod := m.Spec.Template
	if len(pod.Spec.Containers) != 1 || m.Spec.Selector.MatchLabels["app"] == "" ||
		m.Spec.Selector.MatchLabels["app"] != pod.Metadata.Labels["app"] {
		t.Fatalf("%+v", m)
	}
	container := pod.Spec.Containers[0]
	if grace := time.Duration(pod.Spec.TerminationGracePeriodSeconds) * time.Second; grace <= stopsWithin {
		t.Errorf("a grace period of %s, though a stop may take %s", grace, stopsWithin)
	}
	takes(t, nil, container.Args)
	known := map[string]bool{}
	newProgram(nil, io.Discard, io.Discard).eachFlag(func(_ *cobra.Command, flag *pflag.Flag) {
		if o, ok := options.Of(flag); ok {
			known[o.Variable] = true
		}
	})
	for _, variable := range container.Env {
		if !known[variable.Name] {
			t.Errorf("%s is no option", variable.Name)
		}
	}
	port := container.Ports[0]
	if !slices.Contains(container.Args, "--probe-addr=:"+strconv.Itoa(port.ContainerPort)) ||
		pod.Metadata.Annotations["prometheus.io/port"] != strconv.Itoa(port.ContainerPort) {
		t.Errorf("port %d, arguments %q, annotations %v", port.ContainerPort, container.Args, pod.Metadata.Annotations)
	}
	handler := (&httpServer{}).handler(newMetrics().metricsHandler(), nil, nil)
	for path, code := range map[string]int{
		container.LivenessProbe.HTTPGet.Path:           http.StatusOK,
		container.ReadinessProbe.HTTPGet.Path:          http.StatusServiceUnavailable,
		pod.Metadata.Annotations["prometheus.io/path"]: http.StatusOK,
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != code {
			t.Errorf("%s of a node that starts: %d, want %d", path, answer.Code, code)
		}
	}
	for name, probe := range map[string]probe{"liveness": container.LivenessProbe,
		"readiness": container.ReadinessProbe} {
		if probe.HTTPGet.Port != port.Name || probe.PeriodSeconds < 1 || probe.TimeoutSeconds < 1 ||
			probe.FailureThreshold < 1 {
			t.Errorf("%s: %+v", name, probe)
		}
	}
}

func TestDocumentedJob(t *testing.T) {
	t.Parallel()
	m := documented(t, "Job")
	containers := m.Spec.Template.Spec.Containers
	if len(containers) != 1 || !slices.Equal(containers[0].Args, []string{"migrate"}) ||
		len(containers[0].Env) != 1 || containers[0].Env[0].Name != "DATABASE_URL" {
		t.Errorf("%+v", containers)
	}
}

// In the compose file an init process reaps zombies, and a node has the time to stop.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Init  bool
			Grace time.Duration `yaml:"stop_grace_period"`
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	node := file.Services["tasktable"]
	if !node.Init || node.Grace <= stopsWithin {
		t.Errorf("%+v, though a stop may take %s", node, stopsWithin)
	}
}

func TestDocumentedUnit(t *testing.T) {
	t.Parallel()
	unit := deployingBlock(t, "ini", "[Service]")
	said := map[string]string{}
	for line := range strings.Lines(unit) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(line, "#") {
			said[name] = value
		}
	}
	if timeout, err := time.ParseDuration(said["TimeoutStopSec"]); err != nil || timeout <= stopsWithin {
		t.Errorf("TimeoutStopSec=%s, though a stop may take %s", said["TimeoutStopSec"], stopsWithin)
	}
	if said["KillSignal"] != "SIGTERM" || said["RestartPreventExitStatus"] != strconv.Itoa(exitUsage) {
		t.Errorf("KillSignal=%s, RestartPreventExitStatus=%s", said["KillSignal"], said["RestartPreventExitStatus"])
	}
	command := strings.Fields(said["ExecStart"])
	variable, _, _ := strings.Cut(said["Environment"], "=")
	variables := []string{variable + "=" + written(t, "database-url", "postgres://u:p@db.example.org/app\n")}
	for line := range strings.Lines(deployingBlock(t, "ini", "TASKTABLE_QUEUES=")) {
		if strings.HasPrefix(line, "TASKTABLE_") {
			variables = append(variables, strings.TrimSpace(line))
		}
	}
	takes(t, variables, command[1:])

	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		return // that is all that can be seen without it
	}
	path := written(t, "tasktable.service", strings.Replace(unit, command[0], "/bin/sh", 1))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), "tasktable.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestDocumentedExitCodes(t *testing.T) {
	t.Parallel()
	if !strings.Contains(readFile(t, "cmd/README.md"), "\n"+exitCodes+"\n") {
		t.Errorf("cmd/README.md lacks, in these words:\n%s", exitCodes)
	}
}

package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// No Docker runs here, so the files are compared with the things that they name.

func TestDockerfile(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(readFile(t, "go.mod"))
	text := readFile(t, "Dockerfile")
	for _, part := range []string{
		"FROM golang:" + version[1] + " AS build\n", "CGO_ENABLED=0 go build", "FROM scratch\n", "USER 65532:65532\n",
		`CMD ["/tasktable", "health"]`, `ENTRYPOINT ["/tasktable"]`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the Dockerfile has no %q", part)
		}
	}
}

// A folder that the image's build does not see would break the build.
func TestTheImageIsBuiltOfAllFolders(t *testing.T) {
	t.Parallel()
	seen := strings.Split(readFile(t, ".dockerignore"), "\n")
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		source := entry.IsDir() && !strings.HasPrefix(name, ".") ||
			filepath.Ext(name) == ".go" || strings.HasPrefix(name, "go.")
		if slices.Contains(seen, "!"+name) != source {
			t.Errorf("%s: in .dockerignore is %t, want %t", name, !source, source)
		}
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Build       string
			Command     []string
			Environment map[string]string
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	node := compose.Services["tasktable"]
	if node.Build != "." || node.Environment["DATABASE_URL"] == "" || node.Environment["PGPASSWORD"] == "" ||
		len(node.Command) < 3 || compose.Services["postgres"].Environment["POSTGRES_DB"] != "tasktable" {
		t.Errorf("%+v", compose)
	}
	run(t, nil, append(node.Command, "--help")...).want(t, exitOK)
}

package scheduled

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The map names files that exist.
func TestMapNamesFiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("`([a-z0-9_/*]+\\.(?:go|sql))`").FindAllStringSubmatch(string(text), -1)
	if len(found) < 30 {
		t.Fatalf("the map names %d files", len(found))
	}
	for _, one := range found {
		places := []string{one[1], filepath.Join("internal", one[1]), filepath.Join("..", one[1])}
		exists := false
		for _, place := range places {
			files, err := filepath.Glob(place)
			exists = exists || err == nil && len(files) > 0
		}
		if !exists {
			t.Errorf("the map names %s, which is in none of %s", one[1], strings.Join(places, ", "))
		}
	}
}

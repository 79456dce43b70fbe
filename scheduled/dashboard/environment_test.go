package dashboard_test

import (
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store/storetest"
)

// Two tabs, of staging and of production, differ on each page and in their titles, also before somebody has signed in.
func TestEnvironmentOnEachPage(t *testing.T) {
	t.Parallel()
	b := newBoard(t, func(c *dashboard.Config) { c.Environment, c.EnvironmentColor = "staging 2", "red" })
	named := []string{" · staging 2 · Tasktable</title>", `<span class="environment" data-color="red">`, "Environment: staging 2"}
	b.get("/").wants(t, http.StatusOK, append(named, "<title>Sign in")...)
	b = newBoard(t, as("ann", dashboard.All, ""), func(c *dashboard.Config) { c.Environment, c.EnvironmentColor = "staging 2", "red" })
	for _, path := range []string{"/", "/tasks", "/dead", "/recurring", "/keys", "/notices", "/schedule"} {
		b.get(path).wants(t, http.StatusOK, named...)
	}
	b.get("/nowhere").wants(t, http.StatusNotFound, named...)
	newBoard(t).get("/").wants(t, http.StatusOK, "<title>Sign in · Tasktable</title>").lacks(t, "environment")
}

func TestEnvironmentIsChecked(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	for _, c := range []dashboard.Config{{Environment: " staging"}, {Environment: "<b>"}, {Environment: "x", EnvironmentColor: "pink"}} {
		c.Pool = pool
		if _, err := dashboard.New(c); err == nil {
			t.Errorf("took %q in %q", c.Environment, c.EnvironmentColor)
		}
	}
}

// White text is readable on each of the colors, and each color has its own rule.
func TestEnvironmentColorsAreReadable(t *testing.T) {
	t.Parallel()
	style, err := os.ReadFile("static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, color := range dashboard.EnvironmentColors() {
		rule := regexp.MustCompile(`data-color="` + color + `"\]\) \{ --mine: #(\w{2})(\w{2})(\w{2}); \}`)
		found := rule.FindSubmatch(style)
		if found == nil {
			t.Fatalf("%s has no rule in style.css", color)
		}
		light := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			value, err := strconv.ParseUint(string(found[i+1]), 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			light += weight * math.Pow((float64(value)/255+0.055)/1.055, 2.4)
		}
		if contrast := 1.05 / (light + 0.05); contrast < 5.5 {
			t.Errorf("%s has a contrast of %.1f", color, contrast)
		}
	}
}

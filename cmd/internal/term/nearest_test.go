package term

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"migrate", "serve", "demo"}
	for word, want := range map[string]string{"migrat": "migrate", "sevre": "", "server": "serve", "demon": "demo",
		"xyz": "", "migrate": "migrate"} {
		if got := Nearest(word, names); got != want {
			t.Errorf("nearest(%q) is %q, want %q", word, got, want)
		}
	}
}

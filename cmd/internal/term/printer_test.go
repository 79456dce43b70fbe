package term_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"

	"github.com/tasktable/tasktable/cmd/internal/term"
)

// Anybody can write ids and messages, also those that --output json prints on a terminal.
func TestDocumentCommandsNoTerminal(t *testing.T) {
	t.Parallel()
	given := map[string]string{"text": "a\u001b[2Jb\u007fc\u009b31md\u202ee\u2066f\U000e0001g Grüße 日本 🙂 \u00a0"}
	var printed bytes.Buffer
	if err := (&term.Printer{Data: &printed}).Document(given); err != nil {
		t.Fatal(err)
	}
	for _, r := range printed.String() {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Errorf("%U is written as it is", r)
		}
	}
	var read map[string]string
	if err := json.Unmarshal(printed.Bytes(), &read); err != nil || read["text"] != given["text"] {
		t.Errorf("read %q (%v), want %q", read["text"], err, given["text"])
	}
	if !bytes.Contains(printed.Bytes(), []byte("Grüße 日本 🙂")) {
		t.Errorf("text that is harmless is escaped: %s", printed.Bytes())
	}
}

package enginetest

import (
	"bytes"
	"strings"
	"sync"
)

// LogText is a log that can be read while it is written.
type LogText struct {
	mu   sync.Mutex
	Text bytes.Buffer
}

func (l *LogText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Text.Write(p)
}

func (l *LogText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Text.String()
}

// Lines are those that contain all of the words.
func (l *LogText) Lines(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for one := range strings.Lines(l.Text.String()) {
		for _, word := range words {
			if !strings.Contains(one, word) {
				continue next
			}
		}
		found = append(found, one)
	}
	return found
}

package leader

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p progress
		fails := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) { // of the bubble's clock
				p.note(false)
			}
		}
		fails(MaxFailing - time.Second)
		if p.none() || p.rests() {
			t.Error("none too early")
		}
		p.note(true)
		fails(MaxFailing - time.Second)
		if p.none() {
			t.Error("none, though a pass had got on meanwhile")
		}
		fails(2 * time.Second)
		if !p.none() || !p.rests() {
			t.Error("not noticed")
		}
		if p.none() {
			t.Error("said twice")
		}
		time.Sleep(RestFor)
		if p.rests() {
			t.Error("it rests for ever")
		}
	})
}

package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tasktable/tasktable/scheduled/api/keys"
)

func TestSignInAndOut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secret := s.key("ann", keys.Read)
	b := s.open()
	b.expect("401")
	b.look("/tasks?status=FAILED")
	b.shows("Sign in")
	b.do(chromedp.SendKeys(chromedp.CSS("#key"), "tt_wrong"), chromedp.Submit(chromedp.CSS("#key")))
	b.shows("The key is not valid.")
	b.signIn(secret)
	b.is(`document.querySelector("#live").dataset.state === "on"`)
	b.submit("Sign out")
	b.shows("Sign in")
}

// Without JavaScript one signs in, chooses a zone, and signs out.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := s.open()
	b.withoutScript()
	b.signIn(s.key("ann", keys.Read))
	b.do(chromedp.SetValue(chromedp.CSS(`input[name="zone"]`), "Europe/Berlin"))
	b.submit("Apply")
	b.do(chromedp.WaitVisible(`//time[contains(., "CE")]`)) // CET or CEST
	b.submit("Sign out")
	b.do(chromedp.WaitVisible(chromedp.CSS("#key")))
}

//go:build unix

package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// caller is a writer that works over HTTP. It sends each call with a key of its own, again and again until it has an
// answer, because an answer may be lost after the API has done the work.
type caller struct {
	*writer // draws tasks and ids, and has no connection

	url    string
	secret string
	client *http.Client
	work   *dice
	last   map[string]*deed // by id: what the last answer said
}

const (
	callLimit  = 1500 * time.Millisecond // a request that takes longer is sent again
	givesUp    = 20 * time.Second        // a call without an answer is given up
	waitsMost  = 300 * time.Millisecond  // the caller is not as patient as Retry-After asks
	rushed     = 4                       // requests of one call that is sent several times at once
	repeatsOne = 4                       // of so many calls, one is sent again after its answer
)

func (r *harness) openCallers(ctx context.Context) error {
	if r.settings.Callers == 0 {
		return nil
	}
	if err := r.openServer(ctx); err != nil {
		return err
	}
	for i := range r.settings.Callers {
		name := fmt.Sprintf("%s-%d", callerName, i+1)
		w := newWriter(name, r.opLog, r.settings, r.settings.random(uint64(200+i)))
		w.hosts = r.receivers.hosts
		r.callers = append(r.callers, &caller{
			writer: w, url: "http://" + r.api.front.address, secret: r.api.secret, work: newDice(allCalls, nil),
			client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: rushed}, Timeout: callLimit},
			last:   map[string]*deed{},
		})
	}
	return r.follow(ctx)
}

// run works until ctx is done.
func (c *caller) run(ctx context.Context) {
	defer c.client.CloseIdleConnections()
	c.pace(ctx, func() { c.step(c.work.roll(c.random)) })
}

// request is a call before it is sent.
type request struct {
	verb   string
	method string
	path   string
	match  int64  // the revision of an If-Match; 0: none
	absent bool   // If-None-Match
	deeds  []deed // what is asked for; the answer says the outcomes, revisions, and ids that are missing
	rush   bool   // it is sent several times at once
	body   any
}

// said is an answer that says what was done.
type said struct {
	Status   int
	ETag     string
	Receipts []receipt
}

type receipt struct {
	ID       string `json:"id"`
	Revision int64  `json:"revision"`
	Outcome  string `json:"outcome"`
}

// call sends a call until it has an answer, and writes to the log what it was told.
func (c *caller) call(r request) {
	e := &entry{Op: c.opLog.op(), Writer: c.name, Began: time.Now(), Answer: unknown, Deeds: r.deeds, OverHTTP: true}
	for _, one := range c.sendAll(r, fmt.Sprintf("%d/%s", e.Op, r.verb)) {
		e.Tries += one.tries
		e.Lost += one.lost
		e.Faults = append(e.Faults, one.faults...)
		switch {
		case one.said != nil && len(e.Told) == 0:
			e.Told, e.Ended = []said{*one.said}, one.at
		case one.said != nil:
			e.Told, e.Ended = append(e.Told, *one.said), earlier(e.Ended, one.at)
		case one.refusal != "":
			e.Refusals = append(e.Refusals, one.refusal)
		}
	}
	if len(e.Told) == 0 {
		e.Ended = time.Now()
	}
	c.conclude(e)
	c.opLog.add(e)
}

// sendAll sends a call once, or several times at once, and perhaps again after its answer.
func (c *caller) sendAll(r request, key string) []heard {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			panic(fmt.Sprintf("the test itself: %v", err))
		}
	}
	all := make([]heard, 1)
	if r.rush {
		all = make([]heard, rushed)
	}
	var sending sync.WaitGroup
	for i := range all {
		random := rand.New(rand.NewPCG(c.random.Uint64(), 0))
		sending.Go(func() { all[i] = c.insist(r, key, body, random) })
	}
	sending.Wait()
	if c.random.IntN(repeatsOne) == 0 && all[0].said != nil {
		all = append(all, c.insist(r, key, body, c.random))
	}
	return all
}

// conclude says what is known of a call. A refusal tells nothing of a request whose answer was lost, because that may
// still be on its way.
func (c *caller) conclude(e *entry) {
	switch {
	case len(e.Told) > 0:
		e.Answer = acknowledged
		for i, got := range e.Told[0].Receipts {
			if i >= len(e.Deeds) {
				break
			}
			d := &e.Deeds[i]
			d.ID, d.Outcome, d.Revision = got.ID, got.Outcome, got.Revision
			c.last[d.ID] = d
		}
	case len(e.Refusals) > 0 && e.Lost == 0:
		e.Answer, e.Closed = refused, true
	}
	for _, d := range e.Deeds {
		if d.ID != "" {
			e.IDs = append(e.IDs, d.ID)
		}
	}
}

// heard is what came of a call.
type heard struct {
	at      time.Time // when it had the answer
	said    *said
	refusal string   // the status and the reason of a refusal that is final
	faults  []string // answers of 500
	tries   int
	lost    int // requests that may have been done or may yet be, for all that the caller knows
}

// insist sends a request until it has a final answer, or gives up.
func (c *caller) insist(r request, key string, body []byte, random *rand.Rand) (h heard) {
	for deadline := time.Now().Add(givesUp); time.Now().Before(deadline); {
		h.tries++
		status, again, text, etag, err := c.send(r, key, body)
		switch {
		case err == nil && status < 300:
			told, err := read(status, etag, text)
			if err != nil {
				h.refusal = fmt.Sprintf("%d %v", status, err)
				return h
			}
			h.said, h.at = told, time.Now()
			return h
		case err == nil && status < 500 && status != http.StatusTooManyRequests &&
			(status != http.StatusConflict || again == 0):
			h.refusal = fmt.Sprintf("%d %s", status, text)
			return h
		case err != nil || status >= 500:
			h.lost++
		}
		if err == nil && status == http.StatusInternalServerError {
			h.faults = append(h.faults, string(text))
		}
		<-time.After(min(again, waitsMost) + time.Duration(random.IntN(50))*time.Millisecond)
	}
	return h
}

// send sends one request. It returns an error if the answer is not whole. again is what Retry-After says.
func (c *caller) send(r request, key string, body []byte) (
	status int, again time.Duration, text []byte, etag string, err error,
) {
	sent, err := http.NewRequest(r.method, c.url+r.path, bytes.NewReader(body))
	if err != nil {
		return 0, 0, nil, "", err
	}
	sent.Header.Set("Authorization", "Bearer "+c.secret)
	sent.Header.Set("Idempotency-Key", key)
	if body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	if r.match != 0 {
		sent.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(r.match, 10)))
	}
	if r.absent {
		sent.Header.Set("If-None-Match", "*")
	}
	got, err := c.client.Do(sent)
	if err != nil {
		return 0, 0, nil, "", err
	}
	defer func() { _ = got.Body.Close() }()
	text, err = io.ReadAll(got.Body)
	seconds, _ := strconv.Atoi(got.Header.Get("Retry-After"))
	return got.StatusCode, time.Duration(seconds) * time.Second, text, got.Header.Get("ETag"), err
}

// read reads the answer of a call for one task or for many.
func read(status int, etag string, text []byte) (*said, error) {
	var answer struct {
		receipt

		Receipts []receipt `json:"receipts"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("an answer that is no receipt: %w", err)
	}
	told := &said{Status: status, ETag: etag, Receipts: answer.Receipts}
	if told.Receipts == nil {
		told.Receipts = []receipt{answer.receipt}
	}
	return told, nil
}

package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
)

// What callers hold at once: all together, and one of them.
const (
	maxBodies    = 32 << 20 // bytes of bodies
	bodiesOfOne  = 8 << 20
	minBodyBytes = 64 << 10 // so that a body counts as at least so much
	maxCalls     = 16       // calls that read or change, each of which may have a connection
	callsOfOne   = 4
	maxWaits     = 100 // calls with ?wait
	waitsOfOne   = 10
	maxStreams   = 100 // streams of events
	streamsOfOne = 10

	patience = 2 * time.Second // how long a call waits for its share, before it is refused
)

// shares bound the memory and the connections that calls take. A call holds its share until its answer is sent.
type shares struct {
	bodies, calls, waits, streams, streamReads *fairuse.Shares
}

func newShares() shares {
	return shares{
		bodies: fairuse.NewShares(maxBodies, bodiesOfOne), calls: fairuse.NewShares(maxCalls, callsOfOne),
		waits: fairuse.NewShares(maxWaits, waitsOfOne), streams: fairuse.NewShares(maxStreams, streamsOfOne),
		streamReads: fairuse.NewShares(streamReads, 1),
	}
}

const (
	opGetTask = "getTask"
	opEvents  = "followEvents"
)

// take takes the share that a call needs from its beginning. If there is none, it refuses the call.
func (s shares) take(op *huma.Operation, r *http.Request, caller string) (give func(), refused *Problem) {
	switch {
	case r.Method != http.MethodGet && r.Body == http.NoBody:
		return func() {}, nil
	case r.Method != http.MethodGet:
		most := fmt.Sprintf("%d bytes of bodies", bodiesOfOne)
		return takeOf(s.bodies, r, caller, bodyBytes(r), patience, CodeTooManyBodies, most)
	case op.OperationID == opEvents:
		return takeOf(s.streams, r, caller, 1, 0, CodeTooManyStreams, fmt.Sprintf("%d streams", streamsOfOne))
	case op.OperationID == opGetTask && r.URL.Query().Get("wait") != "":
		return takeOf(s.waits, r, caller, 1, 0, CodeTooManyWaits, fmt.Sprintf("%d calls with wait", waitsOfOne))
	}
	return takeOf(s.calls, r, caller, 1, patience, CodeTooManyReads, fmt.Sprintf("%d calls", callsOfOne))
}

// turn takes the share of connections that a changing call needs. The caller asks for it once the body is there, so
// that a slow body holds up no other call. Without this share, calls of one key that wait for locks would take all
// connections.
func (s shares) turn(r *http.Request, caller string) (give func(), refused *Problem) {
	if r.Method == http.MethodGet {
		return func() {}, nil
	}
	return takeOf(s.calls, r, caller, 1, patience, CodeTooManyChanges, fmt.Sprintf("%d calls", callsOfOne))
}

// takeOf takes n of a share. code and most are those of a refusal because the caller has all of its part.
func takeOf(
	of *fairuse.Shares, r *http.Request, caller string, n int64, patient time.Duration, code Code, most string,
) (give func(), refused *Problem) {
	give, err := of.Take(r.Context(), caller, n, patient)
	switch {
	case err == nil:
		return give, nil
	case errors.Is(err, fairuse.ErrOwnShare):
		return nil, refusal(code, "one key may have "+most+" under way at once")
	case errors.Is(err, fairuse.ErrAllShares):
		return nil, refusal(CodeBusy, "all callers together have too many calls of this kind under way")
	}
	return nil, refusal(CodeClientGone, "the client closed the connection")
}

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
	maxReads     = 16       // reading calls
	readsOfOne   = 4
	maxWaits     = 100 // calls with ?wait
	waitsOfOne   = 10
	maxStreams   = 100 // streams of events
	streamsOfOne = 10

	patience = 2 * time.Second // how long a call waits for its share, before it is refused
)

// shares bound the memory and the connections that calls take. A call holds its share until its answer is sent.
type shares struct {
	bodies, reads, waits, streams, streamReads *fairuse.Shares
}

func newShares() shares {
	return shares{
		bodies: fairuse.NewShares(maxBodies, bodiesOfOne), reads: fairuse.NewShares(maxReads, readsOfOne),
		waits: fairuse.NewShares(maxWaits, waitsOfOne), streams: fairuse.NewShares(maxStreams, streamsOfOne),
		streamReads: fairuse.NewShares(streamReads, 1),
	}
}

const (
	opGetTask = "getTask"
	opEvents  = "followEvents"
)

// take takes the share that a call needs. If there is none, it refuses the call.
func (s shares) take(op *huma.Operation, r *http.Request, caller string) (give func(), refused *Problem) {
	of, n, patient := s.reads, int64(1), patience
	code, most := CodeTooManyReads, fmt.Sprintf("%d reading calls", readsOfOne)
	switch {
	case r.Method != http.MethodGet && r.Body == http.NoBody:
		return func() {}, nil
	case r.Method != http.MethodGet:
		of, n = s.bodies, bodyBytes(r)
		code, most = CodeTooManyBodies, fmt.Sprintf("%d bytes of bodies", bodiesOfOne)
	case op.OperationID == opEvents:
		of, patient = s.streams, 0
		code, most = CodeTooManyStreams, fmt.Sprintf("%d streams", streamsOfOne)
	case op.OperationID == opGetTask && r.URL.Query().Get("wait") != "":
		of, patient = s.waits, 0
		code, most = CodeTooManyWaits, fmt.Sprintf("%d calls with wait", waitsOfOne)
	}
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

package outcome

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// DecodePayload decodes an attempt's payload. If no codec can decode it, the task fails. If the codec is not there or
// does not answer, only the attempt fails, because another node may have the codec, or the next attempt may succeed.
func DecodePayload(ctx context.Context, codec store.Codec, e *handlers.Execution) error {
	plain, err := store.Decoded(ctx, codec, e.Type, e.ID, e.Payload)
	if err != nil {
		return permanentIfInvalid(err)
	}
	e.Payload = plain
	return nil
}

// EncodeFollowUps encodes the payloads of the follow-ups that the handler has scheduled. It does so here because a
// failure then concerns only this attempt. In the transaction that settles the attempt together with others, a
// failure would make all of them wait.
func EncodeFollowUps(ctx context.Context, codec store.Codec, e *handlers.Execution) error {
	if codec == nil {
		return nil
	}
	followUps := e.Effects().FollowUps
	encoded, err := encodeEach(ctx, codec, followUps)
	copy(followUps, encoded) // followUps is not a copy
	return permanentIfInvalid(err)
}

// codecLimit is how long the codec may take for the tasks of EncodeIfDead. The attempt's own time may be over.
const codecLimit = 5 * time.Second

// EncodeIfDead encodes the payloads of the tasks that a failed attempt schedules. If the codec cannot, the task dies
// without them, and its message says so. A payload that is not encoded must not reach the database.
func EncodeIfDead(ctx context.Context, codec store.Codec, s *taskdb.Settlement) {
	if codec == nil || s.To != store.StatusFailed || len(s.Effects.FollowUps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), codecLimit)
	defer cancel()
	encoded, err := encodeEach(ctx, codec, s.Effects.FollowUps)
	if err != nil {
		addReason(s, fmt.Errorf("follow-ups if dead: %w", err))
	}
	s.Effects.FollowUps = encoded
}

func encodeEach(ctx context.Context, codec store.Codec, tasks []store.Task) (encoded []store.Task, err error) {
	defer func() {
		if value := recover(); value != nil { // the codec is the application's code
			encoded, err = nil, fmt.Errorf("the codec panicked: %v", value)
		}
	}()
	for _, task := range tasks {
		done, err := task.Encoded(ctx, codec)
		if err != nil {
			return nil, err
		}
		encoded = append(encoded, done)
	}
	return encoded, nil
}

func permanentIfInvalid(err error) error {
	if errors.Is(err, store.ErrInvalid) {
		return handlers.Permanent(err)
	}
	return err
}

package scheduled

import (
	"context"
	"errors"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// decodePayload decodes an attempt's payload. What no codec can decode fails the task; a codec that is not there, or does not answer,
// fails the attempt: another node may have it, or the next attempt.
func decodePayload(ctx context.Context, codec store.Codec, e *handlers.Execution) error {
	plain, err := store.Decoded(ctx, codec, e.Type, e.ID, e.Payload)
	if err != nil {
		return permanentIfInvalid(err)
	}
	e.Payload = plain
	return nil
}

// encodeFollowUps encodes the payloads of what the handler has scheduled. Here, where a failure is the attempt's alone: in the
// transaction that settles it together with others, it would keep them all waiting.
func encodeFollowUps(ctx context.Context, codec store.Codec, e *handlers.Execution) error {
	if codec == nil {
		return nil
	}
	followUps := e.Effects().FollowUps // not a copy
	for i := range followUps {
		encoded, err := followUps[i].Encoded(ctx, codec)
		if err != nil {
			return permanentIfInvalid(err)
		}
		followUps[i] = encoded
	}
	return nil
}

func permanentIfInvalid(err error) error {
	if errors.Is(err, store.ErrInvalid) {
		return handlers.Permanent(err)
	}
	return err
}

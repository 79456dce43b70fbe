package outcome

import (
	"context"
	"errors"

	"github.com/tasktable/tasktable/handlers"
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

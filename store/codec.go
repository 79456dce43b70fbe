package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
)

// Codec encodes payloads before they are stored, and decodes them before a handler gets them: to keep them encrypted
// in the database. What is stored is an envelope, {"type": …, "$codec": name, "$data": base64}, in which the type
// alone can be read. Package seal is a ready-made one. Its methods are called by many goroutines at once.
//
// Encode must give the same for the same: Schedule compares what is stored with what it would store, and with a
// random nonce every unchanged task would be an edited one, and a running one would run again.
//
// The texts of its errors go to logs and to the history: they must not have anything of a payload in them.
type Codec interface {
	// Encode returns the encoded payload, and the name by which Decode will know what made it: a method and a key,
	// for instance, in 1 to 128 printable ASCII characters. plain is the payload's JSON, with its keys sorted; kind
	// and id are the task's, for a codec that binds what it makes to them.
	Encode(ctx context.Context, kind, id string, plain []byte) (name string, data []byte, err error)
	// Decode returns what Encode was given. An error that wraps ErrInvalid says that no retry would help: the task is
	// FAILED. With any other, ErrUnknownCodec for a name that is not this codec's among them, the attempt has failed
	// and is tried again.
	//
	// An occurrence of a recurring task has its task's payload: it is tried with the occurrence's id and, if that is
	// ErrInvalid, with the task's.
	Decode(ctx context.Context, name, kind, id string, data []byte) (plain []byte, err error)
}

// ErrUnknownCodec is wrapped by the error about a payload whose envelope names a codec, or a key of one, that this
// program does not have.
var ErrUnknownCodec = errors.New("unknown codec")

// Codecs is a Codec that encodes by current, and decodes by whichever of current and former knows the name: for a
// change from one to another.
func Codecs(current Codec, former ...Codec) Codec { return codecs(append([]Codec{current}, former...)) }

type codecs []Codec

func (c codecs) Encode(ctx context.Context, kind, id string, plain []byte) (string, []byte, error) {
	return c[0].Encode(ctx, kind, id, plain)
}

func (c codecs) Decode(ctx context.Context, name, kind, id string, data []byte) (plain []byte, err error) {
	for _, codec := range c {
		if plain, err = codec.Decode(ctx, name, kind, id, data); !errors.Is(err, ErrUnknownCodec) {
			return plain, err
		}
	}
	return nil, err
}

// codecField is where an envelope says what it was encoded by. No payload of a caller may have it.
const codecField = "$codec"

type envelope struct {
	Type  string `json:"type"`
	Codec string `json:"$codec"`
	Data  []byte `json:"$data"`
}

// inEnvelope is a payload that is encoded already, or that Reconcile leaves as it is.
type inEnvelope struct{ JSON }

// Encoded is Fixed, with the payload as codec encodes it; with a nil codec it is Fixed. It is for engines: Schedule
// encodes by itself, and what is encoded already it leaves as it is.
func (t Task) Encoded(ctx context.Context, codec Codec) (Task, error) {
	wire, err := t.wire()
	if err == nil && codec != nil {
		err = wire.encode(ctx, codec, t.Payload)
	}
	if err != nil {
		return Task{}, err
	}
	t.ID, t.Payload = wire.ID, inEnvelope{JSON(wire.Payload)}
	return t, nil
}

// encode puts the payload into an envelope, unless it is in one.
func (w *wireTask) encode(ctx context.Context, codec Codec, payload Payload) error {
	if _, done := payload.(inEnvelope); done {
		return nil
	}
	kind := payload.TaskType()
	plain, err := canonical(w.Payload)
	if err != nil {
		return fmt.Errorf("%w: payload of type %s cannot be read", ErrInvalid, kind)
	}
	name, data, err := codec.Encode(ctx, kind, w.ID, plain)
	if err != nil {
		return fmt.Errorf("encode payload of type %s: %w", kind, err)
	}
	if len(name) > 128 || !cronSyntax.MatchString(name) {
		return check.Invalid("codec", "must have a name of 1 to 128 printable ASCII characters",
			fmt.Sprintf("%.140q", name))
	}
	if w.Payload, err = json.Marshal(envelope{kind, name, data}); err != nil {
		return fmt.Errorf("encode payload of type %s: %w", kind, err)
	}
	return checkStorable(w.Payload, kind+", encoded")
}

// Decoded is a payload as it was before it was encoded; one without an envelope as it is. kind and id are the task's.
// The error names the type and the codec; it wraps ErrUnknownCodec for a codec that is not this one, ErrInvalid for
// what no codec can decode, else what the codec returned.
func Decoded(ctx context.Context, codec Codec, kind, id string, payload json.RawMessage) (json.RawMessage, error) {
	// as nearly always without a codec: nothing is taken apart
	if !bytes.Contains(payload, []byte(`"`+codecField+`"`)) {
		return payload, nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil || fields[codecField] == nil { // it stands somewhere within
		return payload, nil
	}
	var in envelope
	if json.Unmarshal(payload, &in) != nil || len(fields) != 3 || fields["$data"] == nil {
		return nil, fmt.Errorf("%w: payload of type %s must have $codec and $data, both texts, and no other field but type",
			ErrInvalid, kind)
	}
	if codec == nil {
		return nil, fmt.Errorf("payload of type %s is encoded by %.140q: %w: none is configured", kind, in.Codec,
			ErrUnknownCodec)
	}
	plain, err := codec.Decode(ctx, in.Codec, kind, id, in.Data)
	if of := recurringOf(id); of != "" && errors.Is(err, ErrInvalid) {
		if plain, ofTask := codec.Decode(ctx, in.Codec, kind, of, in.Data); ofTask == nil {
			return plain, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("payload of type %s is encoded by %.140q: %w", kind, in.Codec, err)
	}
	return plain, nil
}

// recurringOf is the id of the recurring task of an occurrence, {id}@{fire time}; "" of another task.
func recurringOf(id string) string {
	at := strings.LastIndexByte(id, '@')
	if at < 0 {
		return ""
	}
	if _, err := time.Parse(time.RFC3339, id[at+1:]); err != nil {
		return ""
	}
	return id[:at]
}

// Payload is the payload of a task that was read, decoded if it was encoded. Row.Payload, and what History shows, is
// as it is stored.
func (s *Store) Payload(ctx context.Context, row Row) (json.RawMessage, error) {
	payload, err := Decoded(ctx, s.config.Codec, row.Type, row.ID, row.Payload)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", row.ID, err)
	}
	return payload, nil
}

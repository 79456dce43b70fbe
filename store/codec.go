package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
)

// Codec encodes payloads before they are stored, and decodes them before a handler gets them. Its purpose is to
// encrypt the payloads in the database. Package seal has a ready-made Codec. The stored payload is an envelope:
// {"type": …, "$codec": name, "$data": base64}. Readers of the table can read only the type and the name. A Codec
// must be safe for concurrent use.
//
// Encode must be deterministic. Schedule compares the stored payload with the newly encoded one. If Encode used a
// random nonce, each unchanged task would count as edited, and a running one would run again.
//
// The texts of a Codec's errors go to logs and to the history. They must not contain any part of a payload.
type Codec interface {
	// Encode returns the encoded payload and a name, by which Decode recognizes the method and the key, for example.
	// The name has 1 to 128 printable ASCII characters. plain is the payload's JSON with sorted keys. kind and id are
	// the task's type and id, for a Codec that binds the encoded payload to them.
	Encode(ctx context.Context, kind, id string, plain []byte) (name string, data []byte, err error)
	// Decode returns the JSON that Encode was given. If the error wraps ErrInvalid, a retry would not help, and the
	// task becomes FAILED. With any other error the attempt has failed, and the engine retries it. Decode must return
	// an error that wraps ErrUnknownCodec if the name is not one of this Codec.
	//
	// An occurrence of a recurring task has the payload that was encoded for the recurring task. Decode is therefore
	// called with the occurrence's id and, if that returns ErrInvalid, with the id of the recurring task.
	Decode(ctx context.Context, name, kind, id string, data []byte) (plain []byte, err error)
}

// ErrUnknownCodec is wrapped by the error about a payload whose envelope names a codec or a key that this program
// does not have.
var ErrUnknownCodec = errors.New("unknown codec")

// Codecs returns a Codec for the change from one Codec to another. It encodes by current. It decodes by the first of
// current and former that does not return ErrUnknownCodec for the name.
func Codecs(current Codec, former ...Codec) Codec { return codecs(append([]Codec{current}, former...)) }

// Rotated is a Codec that has taken the place of others, for example after a change of the key. Schedule encodes each
// payload by these, too, so that it recognizes a task that one of them has encoded. It encodes a waiting task anew,
// which keeps its idempotency key, and leaves a running one alone. If the running one has IfDead, it encodes these
// tasks anew, and the task runs once more with the same idempotency key. Codecs returns a Rotated.
type Rotated interface {
	Codec
	// Former returns the former codecs. A payload that one of them cannot encode counts as another one.
	Former() []Codec
}

type codecs []Codec

// Former returns the former codecs, and those that all of them have replaced.
func (c codecs) Former() []Codec {
	all := slices.Clone(c[1:])
	for _, one := range c {
		if rotated, ok := one.(Rotated); ok {
			all = append(all, rotated.Former()...)
		}
	}
	return all
}

// checkCodec refuses a pointer that is nil, which is no nil Codec, because its methods would panic at the first task.
func checkCodec(codec Codec) error {
	if list, ok := codec.(codecs); ok {
		for i, one := range list {
			if check.IsNil(one) {
				return check.Invalid("codec", "must not be nil in Codecs",
					fmt.Sprintf("a %T that is nil as number %d", one, i+1))
			}
		}
	} else if codec != nil && check.IsNil(codec) {
		return check.Invalid("codec", "must not be a pointer that is nil", fmt.Sprintf("a %T that is nil", codec))
	}
	return nil
}

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

// codecField is the field of an envelope that names the Codec. No payload of a caller may have this field.
const codecField = "$codec"

type envelope struct {
	Type  string `json:"type"`
	Codec string `json:"$codec"`
	Data  []byte `json:"$data"`
}

// inEnvelope is a payload that Schedule must store as it is, because it is encoded already or because Reconcile keeps
// the stored payload.
type inEnvelope struct {
	JSON
	former []json.RawMessage
}

// Encoded is Fixed with the payload encoded by codec. If codec is nil, it is Fixed. Schedule does not encode
// a task again that Encoded returned. It is for engines.
func (t Task) Encoded(ctx context.Context, codec Codec) (Task, error) {
	wire, err := t.wire()
	if err == nil && codec != nil {
		err = wire.encodeAll(ctx, codec, t)
	}
	if err != nil {
		return Task{}, err
	}
	t = t.withAllDefaults()
	t.ID, t.Payload = wire.ID, inEnvelope{JSON(wire.Payload), wire.Former}
	return t.withIfDead(wire), nil
}

// encodeAll encodes the payloads of the task and of its IfDead.
func (w *wireTask) encodeAll(ctx context.Context, codec Codec, task Task) error {
	if err := w.encode(ctx, codec, task.Payload); err != nil {
		return err
	}
	return w.encodeIfDead(ctx, codec, task.IfDead)
}

// encode puts the payload into an envelope, unless it is in one already.
func (w *wireTask) encode(ctx context.Context, codec Codec, payload Payload) error {
	if stored, done := payload.(inEnvelope); done {
		w.Former = stored.former
		return nil
	}
	kind := payload.TaskType()
	plain, err := canonical(w.Payload)
	if err != nil {
		return fmt.Errorf("%w: payload of type %s cannot be read", ErrInvalid, kind)
	}
	if w.Payload, err = inCodec(ctx, codec, kind, w.ID, plain); err != nil {
		return err
	}
	if rotated, ok := codec.(Rotated); ok {
		for _, former := range rotated.Former() {
			if encoded, err := inCodec(ctx, former, kind, w.ID, plain); err == nil {
				w.Former = append(w.Former, encoded)
			}
		}
	}
	return checkStorable(w.Payload, kind+", encoded")
}

// inCodec returns the envelope of a payload.
func inCodec(ctx context.Context, codec Codec, kind, id string, plain []byte) (json.RawMessage, error) {
	name, data, err := codec.Encode(ctx, kind, id, plain)
	if err != nil {
		return nil, fmt.Errorf("encode payload of type %s: %w", kind, err)
	}
	if len(name) > 128 || !cronSyntax.MatchString(name) {
		return nil, check.Invalid("codec", "must have a name of 1 to 128 printable ASCII characters",
			fmt.Sprintf("%.140q", name))
	}
	encoded, err := json.Marshal(envelope{kind, name, data})
	if err != nil {
		return nil, fmt.Errorf("encode payload of type %s: %w", kind, err)
	}
	return encoded, nil
}

// Decoded returns a stored payload as it was before it was encoded. It returns a payload without an envelope
// unchanged. kind and id are those of the task. The error names the type and the codec. It wraps ErrUnknownCodec if
// codec does not know the name in the envelope or is nil, and ErrInvalid if no codec can decode the payload.
// Otherwise it wraps the error that the codec returned. Store.Payload calls Decoded for a Row. It is for engines.
func Decoded(ctx context.Context, codec Codec, kind, id string, payload json.RawMessage) (json.RawMessage, error) {
	// most payloads are not encoded, and need no parsing
	if !bytes.Contains(payload, []byte(`"`+codecField+`"`)) {
		return payload, nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil || fields[codecField] == nil { // the text occurs inside the payload
		return payload, nil
	}
	var in envelope
	if json.Unmarshal(payload, &in) != nil || len(fields) != 3 || fields["$data"] == nil {
		return nil, fmt.Errorf("%w: payload of type %s must have $codec and $data, both texts, and no other field "+
			"but type", ErrInvalid, kind)
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

// recurringOf returns the id of an occurrence's recurring task. The occurrence's id is {id}@{fire time}. Of a task that
// an occurrence's IfDead has scheduled, it returns the id with which the payload was encoded. For another id
// recurringOf returns "".
func recurringOf(id string) string {
	if suffix := ifDeadSuffix.FindString(id); suffix != "" {
		if of := recurringOf(strings.TrimSuffix(id, suffix)); of != "" {
			return of + suffix
		}
	}
	at := strings.LastIndexByte(id, '@')
	if at < 0 {
		return ""
	}
	if _, err := time.Parse(time.RFC3339, id[at+1:]); err != nil {
		return ""
	}
	return id[:at]
}

// Payload returns the payload of a task that was read, decoded if it is encoded. In contrast, Row.Payload and the
// changes in a History have the payload as it is stored.
func (s *Store) Payload(ctx context.Context, row Row) (json.RawMessage, error) {
	if s.source.Err != nil {
		return nil, fmt.Errorf("payload of task %s: %w", row.ID, s.source.Err)
	}
	payload, err := Decoded(ctx, s.config.Codec, row.Type, row.ID, row.Payload)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", row.ID, err)
	}
	return payload, nil
}

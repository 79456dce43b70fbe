package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// answers stores the answers of calls that had an Idempotency-Key. An answer is written in the transaction of its
// change. Therefore a client that lost the answer can repeat the call, and the change is made once.
//
// The leader of the nodes removes answers after 24 hours (maintenance/retention.go). Only answers of calls that
// committed are stored. A call that was refused has changed nothing, and is tried again.
type answers struct{ schema store.Schema }

// asked is a call with an Idempotency-Key. Without a key it is the zero value.
type asked struct {
	caller string
	key    string
	hash   []byte // of the request and of the caller's tenant and service
}

var (
	errOtherRequest = refusal(CodeKeyReused,
		"the Idempotency-Key was used for another request; use a new key for each new request")
	errInProgress = refusal(CodeKeyInUse, "a call with this Idempotency-Key is in progress; try again")
)

// lockAnswerSQL takes a lock until the end of the transaction. Postgres frees it also if the API dies.
const lockAnswerSQL = `SELECT pg_try_advisory_xact_lock(hashtextextended($1::text, 4712))`

const findAnswerSQL = `
SELECT request_hash, answer, created_at > clock_timestamp() - interval '24 hours' AS fresh
FROM tasktable.api_answers WHERE caller = $1 AND idempotency_key = $2`

const removeAnswerSQL = `DELETE FROM tasktable.api_answers WHERE caller = $1 AND idempotency_key = $2`

// once calls do, unless the answer of the same call is stored. It stores the answer of do. It returns an error if the
// key belongs to another request, or to one that is in progress.
func once[O any](ctx context.Context, s answers, tx pgx.Tx, asked asked, do func() (*O, error)) (*O, error) {
	if asked.key == "" {
		return do()
	}
	var free bool
	name := s.schema.String() + " " + asked.caller + " " + asked.key
	if err := tx.QueryRow(ctx, lockAnswerSQL, name).Scan(&free); err != nil {
		return nil, fmt.Errorf("lock the Idempotency-Key: %w", err)
	}
	if !free {
		return nil, errInProgress
	}
	stored, err := s.find(ctx, tx, asked)
	if err != nil {
		return nil, err
	}
	if stored != nil {
		out := new(O)
		if err := json.Unmarshal(stored, out); err != nil {
			return nil, fmt.Errorf("read the stored answer: %w", err)
		}
		return out, nil
	}
	out, err := do()
	if err != nil {
		return nil, err
	}
	if stored, err = json.Marshal(out); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return out, s.keep(ctx, tx, asked, stored)
}

// find returns the stored answer, or nil if there is none. An answer that is too old is removed.
func (s answers) find(ctx context.Context, tx pgx.Tx, asked asked) (stored []byte, err error) {
	var hash []byte
	var fresh bool
	err = tx.QueryRow(ctx, s.schema.SQL(findAnswerSQL), asked.caller, asked.key).Scan(&hash, &stored, &fresh)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("find the stored answer: %w", err)
	case !fresh:
		if _, err := tx.Exec(ctx, s.schema.SQL(removeAnswerSQL), asked.caller, asked.key); err != nil {
			return nil, fmt.Errorf("remove an old answer: %w", err)
		}
		return nil, nil
	case !bytes.Equal(hash, asked.hash):
		return nil, errOtherRequest
	}
	return stored, nil
}

const keepAnswerSQL = `
INSERT INTO tasktable.api_answers (caller, idempotency_key, request_hash, answer)
VALUES ($1, $2, $3, $4)`

// keep stores an answer.
func (s answers) keep(ctx context.Context, tx pgx.Tx, asked asked, answer []byte) error {
	_, err := tx.Exec(ctx, s.schema.SQL(keepAnswerSQL), asked.caller, asked.key, asked.hash, answer)
	if err != nil {
		return fmt.Errorf("store the answer: %w", err)
	}
	return nil
}

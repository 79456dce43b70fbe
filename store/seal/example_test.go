package seal_test

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/seal"
)

type ChargeCard struct {
	Order string `json:"order"`
	Card  string `json:"card"`
}

func (ChargeCard) TaskType() string  { return "CHARGE_CARD" }
func (p ChargeCard) TaskKey() string { return p.Order }

// Who schedules and who runs are given the same Codec: the key in use, and those before it.
func Example() {
	ctx := context.Background()
	secret := make([]byte, seal.SecretBytes) // from wherever you keep secrets
	if _, err := rand.Read(secret); err != nil {
		panic(err)
	}
	codec, err := seal.New(seal.Key{ID: "2027-05", Secret: secret})
	if err != nil {
		panic(err)
	}
	tasks := store.New(store.Config{Service: "shop", Codec: codec})
	task := store.Task{Payload: ChargeCard{Order: "7", Card: "4242 4242 4242 4242"}}
	// tasks.Schedule(ctx, tx, task), and scheduled.Config{Codec: codec} for the node

	stored, err := task.Encoded(ctx, codec) // what Schedule stores
	if err != nil {
		panic(err)
	}
	text, err := stored.Payload.(interface{ MarshalJSON() ([]byte, error) }).MarshalJSON()
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text[:49]) + "…")

	// Of what Get and List return.
	payload, err := tasks.Payload(ctx, store.Row{ID: stored.ID, Type: "CHARGE_CARD", Payload: text})
	fmt.Println(string(payload), err)
	// Output:
	// {"type":"CHARGE_CARD","$codec":"seal/2027-05","$d…
	// {"card":"4242 4242 4242 4242","order":"7","type":"CHARGE_CARD"} <nil>
}

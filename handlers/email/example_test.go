package email_test

import (
	"fmt"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/email"
)

func ExampleVariant() {
	mail, err := email.Variant(email.Config{
		Host: "localhost", TLS: email.TLSNone, From: "Events <events@example.org>", // a mail server on this machine
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := handlers.NewRegistry(mail)
	fmt.Println(registry.Types(), err)
	// Output: [SEND_EMAIL] <nil>
}

package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/store"
)

func TestAConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config webhook.Config
		want   string // "": it is good
	}{
		"nothing": {webhook.Config{}, ""},
		"all": {webhook.Config{
			Secrets: map[string][]string{"orders": {secret}}, Timeout: 10 * time.Minute,
			Allow: []string{"10.1.0.0/16", "10.2.0.1", "fd00::/8", "fe80::1%eth0", "Intern.example.org", "*.example.org"},
			Deny:  []string{"localhost", "8.8.8.8/32"},
		}, ""},
		"a URL":               {webhook.Config{Allow: []string{"::1", "https://u:hunter2@example.org"}}, "Allow must have host names"},
		"a port":              {webhook.Config{Deny: []string{"example.org:80"}}, "Deny must have host names"},
		"a number for a host": {webhook.Config{Deny: []string{"2130706433"}}, "number 1 is none of them"},
		"a wrong range":       {webhook.Config{Allow: []string{"10.0.0.0/33"}}, "number 1 is none of them"},
		"a mapped range":      {webhook.Config{Allow: []string{"::ffff:10.0.0.0/104"}}, "Allow must have"},
		"all hosts":           {webhook.Config{Deny: []string{"*"}}, "Deny must have"},
		"a star within":       {webhook.Config{Deny: []string{"a.*.example.org"}}, "Deny must have"},
		"an empty entry":      {webhook.Config{Deny: []string{""}}, "Deny must have"},
		"a short timeout":     {webhook.Config{Timeout: time.Millisecond}, "Timeout must be between 100ms and 10m0s, got 1ms"},
		"a circuit": {webhook.Config{
			Circuit: webhook.Circuit{Calls: 1, Open: time.Second, MaxOpen: 24 * time.Hour},
		}, ""},
		"no circuit":         {webhook.Config{Circuit: webhook.Circuit{Off: true}}, ""},
		"a long first time":  {webhook.Config{Circuit: webhook.Circuit{Open: time.Hour}}, ""},
		"a short circuit":    {webhook.Config{Circuit: webhook.Circuit{Open: time.Millisecond}}, "Circuit.Open must be"},
		"negative calls":     {webhook.Config{Circuit: webhook.Circuit{Calls: -1}}, "Circuit.Calls must be"},
		"times out of order": {webhook.Config{Circuit: webhook.Circuit{Open: 2 * time.Minute, MaxOpen: time.Minute}}, "Circuit.MaxOpen must be"},
		"a long timeout":     {webhook.Config{Timeout: time.Hour}, "Timeout must be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := webhook.New(test.config)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("tells a password: %v", err)
			}
		})
	}
}

func TestAllThatIsWrongIsTold(t *testing.T) {
	t.Parallel()
	_, err := webhook.Variant(webhook.Config{
		Timeout: -1, Allow: []string{"/"}, Deny: []string{"/"}, Secrets: map[string][]string{"": nil},
	})
	for _, field := range []string{"Secrets", "Allow", "Deny", "Timeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no %s in %v", field, err)
		}
	}
}

func TestAPrintedConfigHidesItsSecrets(t *testing.T) {
	t.Parallel()
	config := webhook.Config{Secrets: map[string][]string{"orders": {secret}}, Allow: []string{"10.1.0.0/16"}}
	encoded, err := json.Marshal(config) //nolint:staticcheck // encodes, because it has no TLSConfig
	if err != nil {
		t.Fatal(err)
	}
	within := struct{ C webhook.Config }{config}
	sender := newSender(t, config)
	if text := fmt.Sprintf("%v %+v %#v", sender, sender, sender); text != "webhook.Sender webhook.Sender webhook.Sender" {
		t.Errorf("prints %s", text)
	}
	for _, text := range []string{
		fmt.Sprint(config), fmt.Sprintf("%+v", config), fmt.Sprintf("%#v", config), fmt.Sprintf("%+v", within),
		fmt.Sprintf("%#v", within), config.LogValue().String(), string(encoded) + "orders",
	} {
		if strings.Contains(text, secret[6:]) || !strings.Contains(text, "orders") || !strings.Contains(text, "10.1.0.0/16") {
			t.Errorf("prints %s", text)
		}
	}
}

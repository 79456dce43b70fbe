package notice_test

import (
	"fmt"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/store/storetest"
)

// In a test t is its own.
func ExampleVariants() {
	t, end := storetest.Example()
	defer end()
	sent, err := notice.Variants(notice.Config{
		DB: storetest.Pool(t),
		Targets: map[string]notice.Target{ // from your secret store
			"ops":   {Kind: notice.KindSlack, URL: "https://hooks.slack.com/services/secret"},
			"phone": {Kind: notice.KindNtfy, URL: "https://ntfy.sh/topic", Token: "tk_secret"},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := handlers.NewRegistry(sent...)
	fmt.Println(registry.Types(), err)
	// Output: [NOTICE NOTICE_WATCH] <nil>
}

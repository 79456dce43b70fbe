package dashboard_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store/storetest"
)

// A service mounts the dashboard among its own pages, and tells who somebody is.
func ExampleNew() {
	t, end := storetest.Example()
	defer end()
	board, err := dashboard.New(dashboard.Config{
		Pool:   storetest.Pool(t),
		Prefix: "/admin/tasks",
		Authenticate: func(r *http.Request) (dashboard.Person, error) {
			if name, _, ok := r.BasicAuth(); ok { // a service checks its own session here
				return dashboard.Person{Name: name, Scopes: dashboard.Read | dashboard.Schedule | dashboard.Operate}, nil
			}
			return dashboard.Person{}, dashboard.ErrUnauthenticated
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/admin/tasks/", board.Handler())

	for _, name := range []string{"", "ann"} {
		request := httptest.NewRequest(http.MethodGet, "/admin/tasks/", nil)
		if name != "" {
			request.SetBasicAuth(name, "")
		}
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		fmt.Printf("%q: %d\n", name, answer.Code)
	}
	// Output:
	// "": 401
	// "ann": 200
}

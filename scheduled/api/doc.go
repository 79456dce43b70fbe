// Package api serves tasks over HTTP, so that a team can schedule in any language. Handler returns an http.Handler to
// mount in a service's own server. The program tasktable serves it with serve --api.
//
//	authenticator := keys.NewAuthenticator(keys.AuthenticatorConfig{Keys: keys.New(keys.Config{}), DB: pool})
//	service, err := api.New(api.Config{Pool: pool, Authenticate: api.ByKey(authenticator)})
//	if err != nil {
//		log.Fatal(err)
//	}
//	http.Handle("/v1/", service.Handler())
//
// Each call is one call of package store or package inspect. The API has no second implementation of a verb, therefore
// a task has the same life whether Go, SQL or HTTP scheduled it.
//
// A caller has scopes, and may have a tenant. Postgres keeps a caller with a tenant to the tasks of its tenant, by row
// level security. A changing call may carry an Idempotency-Key. Its answer is stored in the transaction of the change,
// so that a client that lost the answer can repeat the call and gets the same answer. The revision of a task is its
// ETag.
//
// The API needs a pool of its own. If it shared the pool of a node, calls could take the connections that the node's
// workers need.
package api

// Package webhook is the variant HTTP_REQUEST: it sends HTTP requests, and signs them by Standard Webhooks.
//
//	requests, err := webhook.Variant(webhook.Config{
//		Secrets: map[string][]string{"orders": {os.Getenv("ORDERS_WEBHOOK_SECRET")}}, // whsec_…
//	})
//	registry, err := handlers.NewRegistry(requests)
//
// The payload is contract.HTTPRequest. It has a package of its own for services that only schedule. Its fields
// document their rules, units and defaults.
//
//	SELECT tasktable.schedule('{"type": "HTTP_REQUEST", "url": "https://example.org/hooks", "sign_with": "orders",
//	                            "body": {"order": "42"}}', expiration => '24 hours');
//
// # What is sent
//
// Beside the payload's headers a request has these:
//
//	Traceparent          the span of the attempt, or on a node without a tracer that of the call that scheduled the
//	                     task, if there is one (W3C Trace Context)
//	Idempotency-Key      {task id}:{number}, the same while payload and time of the task are the same
//	Tasktable-Task-Id    the task's id
//	Tasktable-Attempt    the number of the attempt, from 1
//	User-Agent           Tasktable, unless the payload has another
//	Webhook-Id           with sign_with: the idempotency key, whose full stops are written %2E
//	Webhook-Timestamp    with sign_with: when the attempt began, by this machine's clock, in seconds since 1970
//	Webhook-Signature    with sign_with: "v1," and a signature, by each secret of the name, separated by spaces
//
// In the key and the ids, a byte that is no visible ASCII character is written as %XX, and so is %. The signature is
// the Base64 of HMAC-SHA256 over "{Webhook-Id}.{Webhook-Timestamp}.{body}", see https://www.standardwebhooks.com. Each
// attempt has a new timestamp. To replace a secret, give its name the new and the old one, replace the receivers'
// secret, and remove the old one. README.md in this folder shows receivers.
//
// # Outcomes
//
// An answer with an expected status completes the task, with a contract.Result: the status, five headers, and up to 16
// KiB of the body. The body is kept as JSON if it is JSON. A longer body is cut, and the result says so. If the server
// ends the body too early, the task completes too, because the server has done its work. A body that does not come
// within the timeout is a timeout, and the attempt fails.
//
// Everything else is an error, and never contains the URL's path or query, or a header. It contains the beginning of
// the answer's body only with keep_error_body or Config.KeepErrorBody, without the secrets that the request sent:
//
//	no answer                      retried by the backoff: no connection, timeout, bad certificate, malformed answer
//	5xx, and an unexpected 2xx     retried by the backoff
//	408, 429, 503                  retried after Retry-After, from 1 s to 24 h; without one, by the backoff
//	an unknown name in sign_with   retried by the backoff, because the node's configuration can be mended
//	all other 4xx                  permanent, also 401 and 403: mend the account, then retry the task
//	a 3xx that is not followed     permanent
//	a refused address              permanent; the node's log has the address and the rule, the error has not
//	a payload that breaks a rule   permanent; the error names the field and the rule
//
// At most five redirects are followed: 301, 302 and 303 for GET and HEAD, and 307 and 308 for all methods. Each new
// address is checked as the first one. A redirect from https to http is refused. Another scheme, host or port gets no
// signature, and of the payload's headers only Accept, Content-Type and User-Agent. It does get the body of a 307 or
// 308. A 3xx in expected_status completes the task and is not followed.
//
// # At least once
//
// A request can arrive twice: if the answer got lost, or if this process died after the request. Receivers drop
// repeated requests by Idempotency-Key, or by Webhook-Id. A retry of a dead letter has the same key, so a receiver that
// has done the work must answer a repeated request with success. Execution.IdempotencyKey says when the key changes.
//
// # Addresses
//
// A caller who may schedule tasks chooses the URL, so the node refuses addresses that are not public: private,
// loopback, link-local, unique-local, shared (CGNAT), metadata, multicast, reserved and documentation addresses, and
// IPv6 addresses that contain one of these. It checks the address of each connection at the moment of connecting, after
// the name was resolved. So a name that changes its address between two lookups does not help an attacker. Config.Allow
// lifts the refusal for hosts and ranges of your own, and Config.Deny refuses others. Deny wins. Ports are not
// restricted. A proxy in the environment is not used, because it would connect on the node's behalf.
//
// # Circuits
//
// A circuit belongs to a host (with its port) and to the payload's circuit, or to the URL's path if the payload names
// none. The first 20 paths of a host that a node calls have a circuit each, and all others share one. A circuit opens
// on its own failures alone. It opens if more than half of at least 20 calls within a minute failed (an unexpected 5xx,
// no answer, a timeout). It is open for 30 seconds. Then one call goes through, the probe. If it fails, the circuit is
// open for twice the time, up to 15 minutes. If it succeeds, the circuit closes. The tasks that wait probe in turn, and
// none twice in a row while others wait. Config.Circuit has other numbers, and turns circuits off.
//
// A task that waits uses up no attempt (see handlers.Wait). It comes back within twice the open time. Its waits are one
// line of the history, and it counts as late from the time at which it was due first. Nodes do not share their
// circuits. A node remembers 1,000. Give tasks an Expiration if they must not wait for a host for ever.
//
// # Limits
//
// A payload's timeout is 100 ms to 10 minutes, and Config.Timeout is the most, 30 s by default. The end of the task's
// lease ends a request too. So give a task with a long timeout a longer ExpectedExecutionTime. A request's body has at
// most 256 KiB, and an answer's headers have at most 64 KiB. TLS is 1.2 or newer. A node keeps up to 4 idle connections
// to a host and 100 in all, for a minute.
//
// # Secrets
//
// Secrets are in the node's configuration, and the payload names them. They are never part of a request, an error, a
// result, a log line or a printed Config. The payload is stored, so a header or a URL with a secret in it is readable
// for all who may read the table. A receiver that repeats a request in its answer gets the request into the result. If
// a server sends more than it announced, net/http prints the rest with the global logger of package log. The program
// tasktable turns that logger off.
package webhook

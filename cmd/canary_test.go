package cmd

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// The canaries: each is to be found nowhere but where it was put.
const (
	databaseCanary = "cAnAry-of-the-database-7x"
	mailCanary     = "cAnAry-of-the-mail-server-7x"
	payloadCanary  = "cAnAry-of-a-payload-7x"
	webhookCanary  = "cAnAry-of-the-webhook-secret-7x"
	noticeCanary   = "cAnAry-of-a-notice-target-7x"
	numberCanary   = "7700112233.445566"
)

// escaped lists canaries that are in a text, also as base64 has them behind a name and a zero byte, and URLs.
func escaped(text string) []string {
	var found []string
	for _, canary := range []string{databaseCanary, mailCanary, payloadCanary, webhookCanary, noticeCanary,
		numberCanary} {
		forms := []string{canary, url.QueryEscape(canary)}
		// of three places in a group of base64 the canary has one; its ends depend on what is beside it
		for shift := range 3 {
			coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + canary))
			forms = append(forms, coded[4:len(coded)-4])
		}
		if slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) }) {
			found = append(found, canary)
		}
	}
	return found
}

func noCanary(t *testing.T, where, text string) {
	t.Helper()
	if found := escaped(text); len(found) > 0 {
		t.Errorf("%s: %v has escaped:\n%s", where, found, text)
	}
}

// cage is a database whose node has all kinds of secrets.
type cage struct {
	t     *testing.T
	admin *pgxpool.Pool
	url   string // with a password that is a canary
	tasks *store.Store

	mailPort string
}

func newCage(t *testing.T) *cage {
	t.Helper()
	role := storetest.Role(t)
	base := storetest.URL(t)
	admin, err := pgxpool.New(context.Background(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	c := &cage{t: t, admin: admin, tasks: store.New(store.Config{Service: "test"})}
	address, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(role, databaseCanary)
	c.url = address.String()
	c.exec(`ALTER ROLE ` + role + ` PASSWORD '` + databaseCanary + `'`)
	c.exec(`DO $$ BEGIN EXECUTE format('GRANT %I TO ` + role + `', current_user); END $$`)
	// What River's jobs were, also when they are gone; and rules of the application's own, whose errors have the row
	// as detail.
	c.exec(`CREATE TABLE public.jobs_seen (row text)`)
	c.exec(`CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN INSERT INTO public.jobs_seen VALUES (NEW::text); RETURN NULL; END $$`)
	c.exec(`CREATE TRIGGER see AFTER INSERT OR UPDATE ON tasktable.river_job FOR EACH ROW
		EXECUTE FUNCTION public.see()`)
	c.exec(`ALTER TABLE tasktable.scheduled_tasks ADD CONSTRAINT "not claimed" CHECK (id <> 'unclaimable'
		OR status <> 'EXECUTING'),
		ADD CONSTRAINT "not completed" CHECK (id <> 'unsettled' OR status <> 'COMPLETED')`)
	return c
}

func (c *cage) exec(sql string) {
	c.t.Helper()
	if _, err := c.admin.Exec(c.t.Context(), sql); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

func (c *cage) lines(sql string) []string {
	c.t.Helper()
	rows, err := c.admin.Query(c.t.Context(), sql)
	if err != nil {
		c.t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// noneIn wants no canary in the answers of queries. Each must have one, unless it is among those that may be empty.
func (c *cage) noneIn(queries map[string]string, mayBeEmpty ...string) {
	c.t.Helper()
	for where, sql := range queries {
		lines := c.lines(sql)
		if len(lines) == 0 && !slices.Contains(mayBeEmpty, where) {
			c.t.Errorf("%s: there is nothing to look at", where)
		}
		noCanary(c.t, where, strings.Join(lines, "\n"))
	}
}

func (c *cage) schedule(id, payload string, change func(*store.Task)) {
	c.t.Helper()
	task := store.Task{ID: id, Payload: store.JSON(payload), MaxAttempts: 1}
	if change != nil {
		change(&task)
	}
	if _, err := c.tasks.Schedule(c.t.Context(), c.admin, task); err != nil {
		c.t.Fatal(err)
	}
}

// rudeServer is a mail server that tells everybody the password it was shown, and accepts none.
func rudeServer(t *testing.T) (port string) {
	t.Helper()
	listener := listen(t)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = fmt.Fprint(conn, "220 rude\r\n")
				for scanner := bufio.NewScanner(conn); scanner.Scan(); {
					switch verb, rest, _ := strings.Cut(scanner.Text(), " "); strings.ToUpper(verb) {
					case "EHLO":
						_, _ = fmt.Fprint(conn, "250-rude\r\n250 AUTH PLAIN\r\n")
					case "AUTH":
						shown, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
						_, _ = fmt.Fprintf(conn, "535 5.7.8 not %s (%s)\r\n", rest,
							strings.ReplaceAll(string(shown), "\x00", " "))
					default:
						_, _ = fmt.Fprint(conn, "221 bye\r\n")
					}
				}
			}()
		}
	}()
	return port
}

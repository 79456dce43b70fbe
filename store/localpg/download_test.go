//go:build linux || darwin

package localpg

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// archive is a tar.xz with scripts for bin/postgres, which prints version 17.5, bin/initdb and bin/pg_ctl.
const archive = `
/Td6WFoAAATm1rRGAgAhARYAAAB0L+Wj4Cf/AKtdADEaShsJm84iHsbLRwPoGC75j1TR0bLwgHrZQah4q5kOJF3240eHti0OnTfi
16BUcOHw6D4S+oR/ArRtCyrI+d9JGerSg9ogcCZ5rM8XQHTRW159zLo6K90P3Q/pbYH+YiuPGBhPXJ+wveMw912YhVFfgKXtKbOW
w4139d/L55Dosn7Wxxd5c6+WBfczloKty/R1wB1mHKVkawQ8Wku5lUG/DmBGDeRezMQbAAAAPI9p5mWcwugAAccBgFAAAOpLPXOx
xGf7AgAAAAAEWVo=`

func TestDownloadFromMaven(t *testing.T) {
	bareMachine(t, nil)
	fetch = fetchFromMaven
	t.Setenv("TMPDIR", openDir(t)) // the library leaves its log there
	maven := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".jar") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(jar(t))
	}))
	t.Cleanup(func() {
		maven.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	old := repository
	t.Cleanup(func() { repository = old })
	repository = maven.URL
	f := mustOpen(t, openDir(t))
	got, err := f.choose(deadline(t), slog.New(slog.DiscardHandler))
	check(t, err)
	if got.major != 17 || got.dir != f.path("binaries-17/bin") {
		t.Fatalf("got %+v", got)
	}
	left, _ := filepath.Glob(f.path("*.unfinished-*"))
	runtime, _ := filepath.Glob(f.path("binaries-17/runtime"))
	if len(left)+len(runtime) > 0 {
		t.Fatal("left behind:", left, runtime)
	}
	maven.Close() // and again, without a network
	if again, err := f.choose(deadline(t), slog.New(slog.DiscardHandler)); err != nil || again != got {
		t.Fatalf("the second time got %+v, %v", again, err)
	}
}

func jar(t *testing.T) []byte {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(archive, "\n", ""))
	if err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	packed := zip.NewWriter(&out)
	file, err := packed.Create("postgres-linux-x86_64.txz")
	if err != nil {
		t.Error(err)
	}
	if _, err := file.Write(text); err != nil {
		t.Error(err)
	}
	if err := packed.Close(); err != nil {
		t.Error(err)
	}
	return out.Bytes()
}

// Package page is forsd's web page: files that the API serves, and that get all their data from
// the API. They need no build step, and load nothing from other servers.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed files
var embedded embed.FS

// file is a file in the form that is sent.
type file struct {
	body      []byte
	kind, tag string
}

// kinds maps file extensions to media types.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml"}

// files has all files by name.
var files = func() map[string]file {
	out := map[string]file{}
	entries, err := fs.ReadDir(embedded, "files")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, e := range entries {
		text, err := embedded.ReadFile(path.Join("files", e.Name()))
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		out[e.Name()] = file{text, kinds[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return out
}()

// Handler serves the page at / and its files below /page/.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/page/")
		if r.URL.Path == "/" {
			name = "index.html"
		}
		f, found := files[name]
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", f.kind)
		w.Header().Set("ETag", f.tag)
		w.Header().Set("Cache-Control", "no-cache")
		if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(f.body)))
		_, _ = w.Write(f.body) // fails only if the client has disconnected
	})
}

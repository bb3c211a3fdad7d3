package server

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// The page gets all its data from the API. It needs no build step, and loads nothing from other
// servers.
//
//go:embed page
var embedded embed.FS

// pageFile is a file of the page in the form that is sent.
type pageFile struct {
	body      []byte
	kind, tag string
}

// mediaTypes maps file extensions to media types.
var mediaTypes = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml"}

// pageFiles has all files by name.
var pageFiles = func() map[string]pageFile {
	out := map[string]pageFile{}
	entries, err := fs.ReadDir(embedded, "page")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, e := range entries {
		text, err := embedded.ReadFile(path.Join("page", e.Name()))
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		out[e.Name()] = pageFile{text, mediaTypes[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return out
}()

// page serves the page for browsers at / and its files below /page/.
func page(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/page/")
	if r.URL.Path == "/" {
		name = "index.html"
	}
	f, found := pageFiles[name]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", f.tag)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(f.body))
}

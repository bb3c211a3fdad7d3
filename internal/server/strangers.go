package server

import (
	"context"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forsd/forsd/api"
)

// A browser sends requests for any page that it shows, from inside the network that the
// page's author is outside of. So a request must name forsd exactly as an operator would, or
// a page could have a name of its own lead here (DNS rebinding), it must not come from a page
// of another origin, and its POST must be of a kind that a browser asks permission for
// (CORS) before it posts it for another origin. Programs send none of a browser's headers. A
// browser reaches the Unix socket too, where a port is forwarded to it.

// socketName is what clients call forsd on its socket.
const socketName = "forsd"

// hostOf returns the name or address of a request's Host: without a port, brackets and the
// dot at the end.
func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// machineNames are this machine's name and its full name. A resolver may learn the full one
// late, so it is asked again after a while.
var machineNames struct {
	sync.Mutex
	until time.Time
	names []string
}

const (
	namesKept    = time.Minute
	lookUpWithin = time.Second
)

// isMachine reports whether a name is this machine's, short or in full.
func isMachine(name string) bool {
	short, err := os.Hostname()
	if err != nil || short == "" {
		return false
	}
	short = strings.ToLower(short)
	if name == short || !strings.HasPrefix(name, strings.SplitN(short, ".", 2)[0]+".") {
		return name == short
	}
	m := &machineNames
	m.Lock()
	defer m.Unlock()
	if now := time.Now(); now.After(m.until) {
		ctx, cancel := context.WithTimeout(context.Background(), lookUpWithin)
		defer cancel()
		m.names, m.until = nil, now.Add(namesKept)
		if full, err := net.DefaultResolver.LookupCNAME(ctx, short); err == nil {
			m.names = append(m.names, strings.ToLower(strings.TrimSuffix(full, ".")))
		}
	}
	return slices.Contains(m.names, name)
}

// knownHost reports whether a name is forsd's: an address, this machine's name, or one of
// further names.
func knownHost(host string, names []string) bool {
	address, _, _ := strings.Cut(host, "%") // without a zone
	return host == "" || host == "localhost" || net.ParseIP(address) != nil ||
		slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) }) || isMachine(host)
}

// foreignPage reports whether a browser sends a request for a page of another origin. Following
// a link is not meant.
func foreignPage(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// strange refuses a request that a browser may have been tricked into.
func (s *service) strange(r *http.Request) error {
	host := hostOf(r)
	switch {
	case (s.via != bySocket || host != socketName) && (s.via != byTLS || !s.Access.Certificates.Names(host)) && !knownHost(host, s.Names):
		return api.Errorf(api.CodeForbidden, "forsd is not known as %.100q: ask it by its address or by the full name of its machine, or add the name to api.names in forsd.yaml", r.Host)
	case foreignPage(r):
		return api.Errorf(api.CodeForbidden, "pages of other origins may not ask forsd")
	}
	return nil
}

// simple refuses what a page may post across origins without being asked: all but JSON
// (https://fetch.spec.whatwg.org/#cors-safelisted-request-header).
func simple(r *http.Request) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost && kind != api.MediaJSON {
		return notJSON{api.BadRequest("POST %s takes Content-Type: %s, as a page of another origin cannot send it; curl has --json", r.URL.Path, api.MediaJSON)}
	}
	return nil
}

// notJSON is a bad request that has a status of its own.
type notJSON struct{ error }

func (e notJSON) Unwrap() error { return e.error }

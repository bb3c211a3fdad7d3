package api

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
)

// A browser sends requests for any page that it shows, from inside the network that the
// page's author is outside of. So over TCP a request must name forsd as an operator would,
// or a page could have a name of its own lead here (DNS rebinding), and it must not come
// from a page of another origin. Programs send none of a browser's headers, and an address
// or a known name as the host.

// knownHost tells whether a request's Host is forsd's: an address, this machine's name with
// or without a domain, or one of further names.
func knownHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	address, _, _ := strings.Cut(host, "%") // without a zone
	if host == "" || host == "localhost" || net.ParseIP(address) != nil {
		return true
	}
	machine, _ := os.Hostname()
	machine = strings.ToLower(machine)
	if machine != "" && (host == machine || strings.HasPrefix(host, machine+".")) {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
}

// foreignPage tells whether a browser sends a request for a page of another origin. That
// somebody follows a link is not meant.
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

// strange refuses a request over TCP that a browser may have been tricked into.
func (s *service) strange(r *http.Request) error {
	switch {
	case !s.tcp:
	case !knownHost(r.Host, s.Names):
		return Errorf(http.StatusForbidden, CodeForbidden, "forsd is not known as %.100q: ask it by its address or by the name of its machine, or add the name to api.names in forsd.yaml", r.Host)
	case foreignPage(r):
		return Errorf(http.StatusForbidden, CodeForbidden, "pages of other origins may not ask forsd")
	}
	return nil
}

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
// page's author is outside of. So a request must name forsd as an operator would, or a page
// could have a name of its own lead here (DNS rebinding), and it must not come from a page
// of another origin. Programs send none of a browser's headers, and an address or a known
// name as the host. A browser reaches the Unix socket too, where somebody forwards a port
// to it; programs name it as they like there, by a name without a domain.

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

// plainName tells whether a host is a name without a domain, which no page can have lead
// here.
func plainName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return !strings.ContainsAny(strings.TrimSuffix(host, "."), ".:")
}

// named tells whether a request names forsd as an operator would.
func (s *service) named(r *http.Request) bool {
	host := r.Host
	switch {
	case knownHost(host, s.Names) || s.via == bySocket && plainName(host):
		return true
	case s.via != byTLS:
		return false
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return s.Access.Certificates.Names(strings.TrimSuffix(host, "."))
}

// strange refuses a request that a browser may have been tricked into.
func (s *service) strange(r *http.Request) error {
	switch {
	case !s.named(r):
		return Errorf(http.StatusForbidden, CodeForbidden, "forsd is not known as %.100q: ask it by its address or by the name of its machine, or add the name to api.names in forsd.yaml", r.Host)
	case foreignPage(r):
		return Errorf(http.StatusForbidden, CodeForbidden, "pages of other origins may not ask forsd")
	}
	return nil
}

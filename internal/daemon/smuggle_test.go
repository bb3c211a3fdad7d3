package daemon

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// raw is a way to send bytes that an HTTP client does not send.
type raw struct {
	name string
	dial func() (net.Conn, error)
}

// raws returns raw connections over the socket, TCP and TLS.
func (g *guarded) raws() []raw {
	roots := x509.NewCertPool()
	roots.AddCert(g.ca.Certificate)
	return []raw{
		{"socket", func() (net.Conn, error) { return net.Dial("unix", g.socket) }},
		{"TCP", func() (net.Conn, error) { return net.Dial("tcp", g.plain) }},
		{"TLS", func() (net.Conn, error) {
			return tls.Dial("tcp", g.safe, &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}})
		}},
	}
}

// answers sends text and nothing else, and returns the status of each answer until forsd
// closes the connection or waits for more. It waits longer for the wanted answers,
// because the machine may be busy, but less than forsd waits for headers.
func (w *raw) answers(t *testing.T, text string, want int) (all []int, closed bool) {
	t.Helper()
	c, err := w.dial()
	ok(t, err)
	defer c.Close()
	go func() { _, _ = io.WriteString(c, text) }() // forsd may close the connection before the end
	for in := bufio.NewReader(c); ; {
		patience := 4 * time.Second
		if len(all) == want {
			patience = 300 * time.Millisecond
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		a, err := http.ReadResponse(in, nil)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return all, false
		} else if err != nil {
			return all, true
		}
		_, _ = io.Copy(io.Discard, a.Body)
		_ = a.Body.Close()
		all = append(all, a.StatusCode)
	}
}

// smuggled is the request that an attacker wants to inject.
const smuggled = "POST /v1/reroute HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n"

// TestSmuggled sends requests whose end a proxy and a server may see differently, over
// the socket, TCP and TLS. Each has at most one answer, and the bytes after it are not
// taken for a request.
func TestSmuggled(t *testing.T) {
	t.Parallel()
	g := guard(t)
	post := func(headers, body string) string {
		return "POST /v1/whatif HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + headers + "\r\n" + body
	}
	chunked := "0\r\n\r\n" + smuggled
	size := fmt.Sprintf("Content-Length: %d\r\n", len(chunked))
	for name, text := range map[string]string{
		"length and chunks":        post(size+"Transfer-Encoding: chunked\r\n", chunked),
		"chunks and length":        post("Transfer-Encoding: chunked\r\n"+size, chunked),
		"folded chunks":            post(size+"Transfer-Encoding:\r\n chunked\r\n", chunked),
		"space before the colon":   post(size+"Transfer-Encoding : chunked\r\n", chunked),
		"tab before chunked":       post(size+"Transfer-Encoding:\x0bchunked\r\n", chunked),
		"another encoding":         post(size+"Transfer-Encoding: xchunked\r\n", chunked),
		"two encodings":            post(size+"Transfer-Encoding: chunked, identity\r\n", chunked),
		"encoding twice":           post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", chunked),
		"chunks in HTTP/1.0":       strings.Replace(post(size+"Transfer-Encoding: chunked\r\n", chunked), "HTTP/1.1", "HTTP/1.0", 1),
		"two lengths":              post("Content-Length: 0\r\n"+size, chunked),
		"a list of lengths":        post("Content-Length: 0, 5\r\n", chunked),
		"length with a sign":       post("Content-Length: +0\r\n", chunked),
		"negative length":          post("Content-Length: -1\r\n", chunked),
		"hexadecimal length":       post("Content-Length: 0x0\r\n", chunked),
		"huge length":              post("Content-Length: 99999999999999999999\r\n", chunked),
		"line feeds in chunks":     post("Transfer-Encoding: chunked\r\n", "2;a\n{}\r\n0\r\n\r\n"+smuggled),
		"huge chunk":               post("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"+smuggled),
		"carriage return in value": post("X: a\rTransfer-Encoding: chunked\r\n"+size, chunked),
		"carriage return as end":   strings.Replace(post(size, chunked), "localhost\r\n", "localhost\r", 1),
		"zero in value":            post("X: a\x00b\r\n"+size, chunked),
		"space in name":            post("X Y: a\r\n"+size, chunked),
		"no name":                  post(": a\r\n"+size, chunked),
		"no host":                  "POST /v1/whatif HTTP/1.1\r\nContent-Type: application/json\r\n" + size + "\r\n" + chunked,
		"two hosts":                post("Host: evil.example\r\n"+size, chunked),
		"another host in the line": "GET http://evil.example/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + smuggled,
		"no method":                " /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled,
		"another version":          "GET /v1/status HTTP/3.7\r\nHost: localhost\r\n\r\n" + smuggled,
		"other words":              "\x16\x03\x01\x02\x00\x01" + smuggled,
		"a large header":           post("X: "+strings.Repeat("a", 1<<20)+"\r\n"+size, chunked),
		"many headers":             post(strings.Repeat("X: a\r\n", 1<<17)+size, chunked),
		"a long path":              "GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled,
	} {
		for _, w := range g.raws() {
			all, closed := w.answers(t, text, 2) // one more than permitted
			if len(all) > 1 || len(all) == 1 && all[0] < 400 || !closed {
				t.Errorf("%s over %s: answers %v, closed: %v", name, w.name, all, closed)
			}
		}
	}
	// Correct requests are answered in order on one connection.
	const get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, w := range g.raws() {
		if all, _ := w.answers(t, get+get+post("Content-Length: 2\r\n", "{}")+get, 4); len(all) != 4 || all[0] != 200 || all[3] != 200 {
			t.Errorf("%s: %v", w.name, all)
		}
	}
	time.Sleep(100 * time.Millisecond) // the history stores events concurrently
	page, err := g.history.History(t.Context(), api.HistoryQuery{Kinds: []string{api.KindOrder}})
	ok(t, err)
	for _, e := range page.Entries {
		t.Errorf("an order came through: %s", e.Data)
	}
}

// TestSlowClients opens connections that send nothing, or less than a request, to each
// listener. forsd closes them and continues to answer others.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	g := guard(t)
	var clients sync.WaitGroup
	began := time.Now()
	for _, w := range append(g.raws(), raw{"TLS without a handshake", func() (net.Conn, error) { return net.Dial("tcp", g.safe) }}) {
		for name, text := range map[string]string{"nothing": "", "half a line": "GET /v1/st", "headers without end": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "} {
			clients.Go(func() {
				c, err := w.dial()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				go func() { // byte by byte until forsd closes the connection
					_, err := io.WriteString(c, text)
					for text != "" && err == nil {
						time.Sleep(100 * time.Millisecond)
						_, err = io.WriteString(c, "a")
					}
				}()
				_ = c.SetReadDeadline(time.Now().Add(time.Minute))
				if text, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") || strings.Contains(string(text), " 200 ") {
					t.Errorf("%s with %s: %s %v", w.name, name, text, err)
				}
			})
		}
	}
	for range 20 {
		for _, w := range g.raws() {
			if all, _ := w.answers(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 2); len(all) != 1 || all[0] != 200 {
				t.Errorf("%s meanwhile: %v", w.name, all)
			}
		}
	}
	clients.Wait()
	t.Logf("all were closed after %v", time.Since(began).Round(100*time.Millisecond))
}

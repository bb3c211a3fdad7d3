package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/internal/server"
	"github.com/forsd/forsd/testbed/authority"
)

// guarded is a forsd with roles that listens on a socket, over TCP and over TLS.
type guarded struct {
	*Daemon
	dir         string
	ca          *authority.Authority
	socket      string
	plain, safe string // addresses
	logs        *observer.ObservedLogs
	end         func()
}

// The user IDs of the test. The users do not have to exist. The user that runs the test is
// an administrator.
const operatorUID, viewerUID, nobodyUID, adminUID = 61001, 61002, 61003, 61004

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer l.Close()
	return l.Addr().String()
}

// guard starts a forsd with roles but without OpenSM.
func guard(t *testing.T, set ...func(*config.Config)) *guarded {
	t.Helper()
	g := &guarded{dir: t.TempDir(), ca: authority.New(t, "authority"), plain: freeAddress(t), safe: freeAddress(t)}
	for at := g.dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o755) // lets other users reach the socket
	}
	g.socket = filepath.Join(g.dir, "s")
	_, cert, key := g.ca.Issue(t, "forsd", time.Now().Add(time.Hour))
	file := func(name string, text []byte) string {
		path := filepath.Join(g.dir, name)
		ok(t, os.WriteFile(path, text, 0o600))
		return path
	}
	g.ca.Revoke(t, filepath.Join(g.dir, "crl.pem"))
	cfg := config.Default()
	cfg.StateDir, cfg.OpenSM.LFTsFile, cfg.OpenSM.RootFile = filepath.Join(g.dir, "state"), filepath.Join(g.dir, "lfts.dump"), filepath.Join(g.dir, "root")
	cfg.OpenSM.DumpDir, cfg.OpenSM.CacheDir, cfg.OpenSM.PIDFile, cfg.OpenSM.Plugin.Socket = g.dir, g.dir, filepath.Join(g.dir, "pid"), filepath.Join(g.dir, "p")
	cfg.API.Socket, cfg.API.SocketMode, cfg.API.Listen, cfg.API.Names = g.socket, 0o666, g.plain, []string{"fabric.example.org"}
	cfg.API.TLS = config.TLS{Listen: g.safe, Files: access.Files{Certificate: file("cert.pem", cert), Key: file("key.pem", key),
		ClientCA: file("ca.pem", g.ca.PEM()), Revoked: filepath.Join(g.dir, "crl.pem")}}
	cfg.API.Administrators = []string{"cn:administrator", fmt.Sprint(adminUID)}
	cfg.API.Operators = []string{"ou:operators", fmt.Sprint("@", operatorUID)}
	cfg.API.Viewers = []string{"cn:viewer", fmt.Sprint(viewerUID)}
	for _, f := range set {
		f(cfg)
	}
	core, logs := observer.New(zapcore.DebugLevel)
	g.logs = logs
	var err error
	g.Daemon, err = New(cfg, "test", zap.New(core), func(string) {})
	ok(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	g.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.end)
	for range 500 {
		if c, err := net.Dial("tcp", g.safe); err == nil {
			_ = c.Close()
			return g
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("forsd does not listen")
	return nil
}

// dialAs connects to a Unix socket as another user. The kernel reports the credentials of
// the connecting thread, which therefore ends afterwards.
func dialAs(uid int, path string) (net.Conn, error) {
	if uid == os.Getuid() {
		return net.Dial("unix", path)
	}
	type made struct {
		c   net.Conn
		err error
	}
	out := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends
		out <- func() made {
			for _, call := range [][4]uintptr{{syscall.SYS_SETGROUPS, 0, 0, 0}, {syscall.SYS_SETRESGID, uintptr(uid), uintptr(uid), uintptr(uid)}, {syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)}} {
				if _, _, e := syscall.RawSyscall(call[0], call[1], call[2], call[3]); e != 0 {
					return made{err: e}
				}
			}
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			if err != nil {
				return made{err: err}
			}
			f := os.NewFile(uintptr(fd), "socket")
			defer f.Close()
			if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
				return made{err: err}
			}
			c, err := net.FileConn(f)
			return made{c, err}
		}()
	}()
	m := <-out
	return m.c, m.err
}

// way is a way to send requests to forsd.
type way struct {
	name  string
	url   string
	http  *http.Client
	token string
	role  api.Role
	known int // status for requests that are not permitted
}

// bySocket returns a way over the socket as the given user.
func (g *guarded) bySocket(uid int, role api.Role) *way {
	return &way{name: fmt.Sprintf("socket as uid %d", uid), url: "http://forsd", role: role, known: http.StatusForbidden, http: &http.Client{Timeout: 10 * time.Second,
		Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dialAs(uid, g.socket) }}}}
}

// overTLS returns a way over TLS with certificates, a token, or neither.
func (g *guarded) overTLS(role api.Role, token string, show ...tls.Certificate) *way {
	roots := x509.NewCertPool()
	roots.AddCert(g.ca.Certificate)
	w := &way{name: "TLS", url: "https://" + g.safe, token: token, role: role, known: http.StatusUnauthorized,
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: show}}}}
	if role > api.Nobody || len(show) > 0 {
		w.known = http.StatusForbidden
	}
	return w
}

// ask sends a request and returns the status and the part of the answer that comes
// immediately.
func (w *way) ask(t *testing.T, method, path string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.url+path, nil)
	ok(t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	a, err := w.http.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close()
	if strings.HasPrefix(path, "/v1/events") && a.StatusCode == http.StatusOK {
		return a.StatusCode, ""
	}
	text, _ := io.ReadAll(a.Body)
	return a.StatusCode, string(text)
}

// token creates a token for a role.
func (g *guarded) token(t *testing.T, role api.Role) string {
	t.Helper()
	secret, _, err := g.callers.access.Tokens.Create("t-"+role.String(), role, time.Hour, "test", time.Now())
	ok(t, err)
	return secret
}

// TestAccess sends requests to every endpoint without a role and as viewer, operator and
// administrator, over the socket, with a certificate, with a token, and over TCP without
// TLS. Endpoints require the roles in docs/openapi.yaml, which
// TestOpenAPIHasEveryEndpoint compares with the server.
func TestAccess(t *testing.T) {
	g := guard(t)
	g.callers.access.Limiter = nil // the test sends too many refused requests
	issue := func(name string, units ...string) tls.Certificate {
		pair, _, _ := g.ca.Issue(t, name, time.Now().Add(time.Hour), units...)
		return pair
	}
	plain := func(token string, role api.Role) *way {
		w := &way{name: "TCP", url: "http://" + g.plain, token: token, role: role, known: http.StatusForbidden, http: &http.Client{Timeout: 10 * time.Second}}
		if token != "" {
			w.name, w.known = "TCP with a token", http.StatusUnauthorized
		}
		return w
	}
	ways := []*way{
		g.bySocket(os.Getuid(), api.Administrator),
		g.overTLS(api.Nobody, ""), g.overTLS(api.Nobody, "", issue("eve")), g.overTLS(api.Viewer, "", issue("viewer")),
		g.overTLS(api.Operator, "", issue("anyone", "x", "operators")), g.overTLS(api.Administrator, "", issue("administrator")),
		plain("", api.Reader),
	}
	if os.Getuid() == 0 {
		ways = append(ways, g.bySocket(nobodyUID, api.Nobody), g.bySocket(viewerUID, api.Viewer), g.bySocket(operatorUID, api.Operator), g.bySocket(adminUID, api.Administrator))
	}
	for _, role := range []api.Role{api.Viewer, api.Operator, api.Administrator} {
		secret := g.token(t, role)
		ways = append(ways, g.overTLS(role, secret), plain(secret, api.Nobody))
		onSocket := g.bySocket(os.Getuid(), role) // a token reduces the user's rights
		onSocket.token = secret
		ways = append(ways, onSocket)
	}
	bogus := g.overTLS(api.Nobody, "forsd_bogus")
	ways = append(ways, bogus)
	asked := 0
	for pattern, need := range server.Endpoints(interfaces(g.components)) {
		method, path, _ := strings.Cut(pattern, " ")
		for strings.Contains(path, "{") {
			before, rest, _ := strings.Cut(path, "{")
			_, after, _ := strings.Cut(rest, "}")
			path = before + "x" + after
		}
		for _, w := range ways {
			status, text := w.ask(t, method, path)
			refused := status == http.StatusUnauthorized || status == http.StatusForbidden
			want := w.role < need || w == bogus || w.token != "" && strings.HasPrefix(w.url, "http://127")
			if status == 0 || refused != want || refused && status != w.known {
				t.Errorf("%s at %s as %s (takes %s): %d %s", w.name, pattern, w.role, need, status, text)
			}
			asked++
		}
	}
	t.Logf("%d requests", asked)
	// Every order is reported, also refused ones. No secret is.
	wanted := []string{`"what":"reroute"`, `"what":"POST /v1/reroute"`, `"way":"token"`, `"way":"certificate"`, `"way":"socket"`, `"way":"tcp"`, `"user":"t-operator"`, `the role viewer, and this takes the role operator`}
	told := ""
	for range 500 { // the history stores events concurrently
		page, err := g.history.History(t.Context(), api.HistoryQuery{Kinds: []string{api.KindOrder}, Limit: api.MostHistory})
		ok(t, err)
		told = ""
		for _, e := range page.Entries {
			told += string(e.Data) + "\n"
		}
		if !slices.ContainsFunc(wanted, func(want string) bool { return !strings.Contains(told, want) }) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, want := range wanted {
		if !strings.Contains(told, want) {
			t.Errorf("no order has %s", want)
		}
	}
	for _, e := range g.logs.All() {
		told += fmt.Sprintln(e.Message, e.ContextMap())
	}
	if strings.Contains(told, "forsd_") {
		t.Error("a token is in the history or in the log")
	}
}

// TestCertificates shows certificates that have expired, are revoked or come from another
// authority, and replaces forsd's certificate while it runs.
func TestCertificates(t *testing.T) {
	t.Parallel()
	g := guard(t)
	pair := func(a *authority.Authority, name string, until time.Time) (tls.Certificate, int64) {
		p, _, _ := a.Issue(t, name, until)
		return p, a.Serial
	}
	good, serial := pair(g.ca, "viewer", time.Now().Add(time.Hour))
	old, _ := pair(g.ca, "viewer", time.Now().Add(-time.Minute))
	foreign, _ := pair(authority.New(t, "another"), "administrator", time.Now().Add(time.Hour))
	short, _ := pair(g.ca, "viewer", time.Now().Add(2*time.Second))
	w, brief := g.overTLS(api.Viewer, "", good), g.overTLS(api.Viewer, "", short)
	for name, x := range map[string]*way{"good": w, "short-lived": brief} {
		if status, text := x.ask(t, "GET", "/v1/status"); status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, status, text)
		}
	}
	for name, bad := range map[string]tls.Certificate{"expired": old, "foreign": foreign} {
		if status, text := g.overTLS(api.Nobody, "", bad).ask(t, "GET", "/v1/status"); status == http.StatusOK {
			t.Errorf("a certificate that is %s: %d %s", name, status, text)
		}
	}
	// On open connections, one certificate is revoked and the other one expires.
	g.ca.Revoke(t, filepath.Join(g.dir, "crl.pem"), serial)
	became := func(x *way, path string, want int) {
		t.Helper()
		var status int
		for range 100 {
			if status, _ = x.ask(t, "GET", path); status == want {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Errorf("%s is answered with %d, and not with %d", path, status, want)
	}
	became(w, "/v1/status", http.StatusUnauthorized)
	became(brief, "/v1/status", http.StatusUnauthorized)
	// forsd shows a new certificate on new connections, and ignores a broken one.
	next := authority.New(t, "next")
	_, cert, key := next.Issue(t, "forsd", time.Now().Add(time.Hour))
	ok(t, os.WriteFile(filepath.Join(g.dir, "key.pem"), []byte("broken"), 0o600))
	time.Sleep(1200 * time.Millisecond)
	fresh, _ := pair(g.ca, "viewer", time.Now().Add(time.Hour))
	became(g.overTLS(api.Viewer, "", fresh), "/v1/status", http.StatusOK)
	found := false
	for _, x := range g.health.List(time.Now()) {
		found = found || x.Code == access.Incomplete
	}
	if !found {
		t.Error("a key that cannot be read is not told of")
	}
	ok(t, os.WriteFile(filepath.Join(g.dir, "cert.pem"), cert, 0o600), os.WriteFile(filepath.Join(g.dir, "key.pem"), key, 0o600))
	roots := x509.NewCertPool()
	roots.AddCert(next.Certificate)
	for range 100 {
		c, err := tls.Dial("tcp", g.safe, &tls.Config{RootCAs: roots})
		if err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the new certificate is not shown")
}

// TestOneProtocol checks that only HTTP/1.1 is offered. With HTTP/2, a client could make
// forsd buffer requests before it reads them.
func TestOneProtocol(t *testing.T) {
	g := guard(t)
	roots := x509.NewCertPool()
	roots.AddCert(g.ca.Certificate)
	c, err := tls.Dial("tcp", g.safe, &tls.Config{RootCAs: roots, NextProtos: []string{"h2", "http/1.1"}})
	ok(t, err)
	defer c.Close()
	if p := c.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Errorf("%q over TLS", p)
	}
	if c, err := tls.Dial("tcp", g.safe, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}); err == nil {
		_ = c.Close()
		t.Error("HTTP/2 over TLS")
	}
	plain, err := net.Dial("tcp", g.plain)
	ok(t, err)
	defer plain.Close()
	_, err = io.WriteString(plain, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	ok(t, err)
	if answer, _ := io.ReadAll(plain); !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
		t.Errorf("over TCP: %q", answer)
	}
}

// drained returns a channel that is closed when there is nothing more to read.
func drained(r io.Reader) <-chan struct{} {
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, r); close(ended) }()
	return ended
}

// TestTokens follows the life of tokens: created over HTTP, used, listed, expired,
// revoked while a stream of events is open, and read back after a restart.
func TestTokens(t *testing.T) {
	g := guard(t)
	client, err := api.Dial(g.socket)
	ok(t, err)
	defer client.Close()
	made, err := client.CreateToken(t.Context(), api.TokenRequest{Name: "grafana", Role: api.Viewer})
	ok(t, err)
	if left := time.Until(made.Expires); left < api.DefaultTokenLife-time.Minute || left > api.DefaultTokenLife {
		t.Errorf("it expires in %s", left)
	}
	for name, q := range map[string]api.TokenRequest{"taken": {Name: "grafana", Role: api.Viewer}, "no name": {Role: api.Viewer}, "odd name": {Name: "../x", Role: api.Viewer},
		"no role": {Name: "a"}, "reader": {Name: "a", Role: api.Reader}, "for ever": {Name: "a", Role: api.Viewer, ExpiresSeconds: 1 << 40}} {
		if made, err := client.CreateToken(t.Context(), q); err == nil {
			t.Errorf("%s: %v", name, made)
		}
	}
	file, err := os.ReadFile(filepath.Join(g.dir, "state", "tokens.json"))
	ok(t, err)
	if info, err := os.Stat(filepath.Join(g.dir, "state", "tokens.json")); err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(file), made.Secret[len("forsd_"):]) {
		t.Errorf("the file %v %v has %s", info.Mode(), err, file)
	}
	w := g.overTLS(api.Viewer, made.Secret)
	if status, text := w.ask(t, "GET", "/v1/whoami"); status != 200 || !strings.Contains(text, `"role":"viewer","user":"grafana"`) {
		t.Errorf("%d %s", status, text)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/events", nil)
	ok(t, err)
	r.Header.Set("Authorization", "Bearer "+made.Secret)
	w.http.Timeout = 0
	stream, err := w.http.Do(r)
	ok(t, err)
	defer stream.Body.Close()
	list, err := client.Tokens(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "grafana" {
		t.Errorf("%v %v", list, err)
	}
	if again, err := access.OpenTokens(filepath.Join(g.dir, "state", "tokens.json")); err != nil {
		t.Error(err)
	} else if _, valid := again.Find(made.Secret, time.Now()); !valid {
		t.Error("a restart forgets the token")
	} else if _, valid := again.Find(made.Secret, made.Expires); valid {
		t.Error("it does not expire")
	}
	_, err = client.RevokeToken(t.Context(), "grafana")
	ok(t, err)
	if status, _ := w.ask(t, "GET", "/v1/status"); status != http.StatusUnauthorized {
		t.Errorf("a token that is revoked: %d", status)
	}
	ended := drained(stream.Body)
	g.state.Emit(api.KindLink, "something happens")
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("its stream of events goes on")
	}
	if _, err := client.RevokeToken(t.Context(), "grafana"); err == nil {
		t.Error("it is revoked twice")
	}
}

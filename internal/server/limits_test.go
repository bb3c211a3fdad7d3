package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/rights"
)

// room lets requests and answers hold so many bytes for the time of a test.
func room(t *testing.T, b *budget, bytes int64) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.free
	b.free = bytes
	t.Cleanup(func() {
		b.mu.Lock()
		b.free = was
		b.mu.Unlock()
	})
}

// TestBodiesAreCounted holds that a body is counted before it is read, until its
// request has been answered, and that small ones are taken in any case.
func TestBodiesAreCounted(t *testing.T) {
	room(t, &bodies, 100_000)
	read := func(ctx context.Context, body io.Reader, limit int64) error {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", body)
		_, err := ReadBody(r, limit)
		return err
	}
	refused := func(err error, code string) {
		t.Helper()
		var e *api.Error
		if !errors.As(err, &e) || e.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	ctx, answered := context.WithCancel(t.Context())
	if err := read(ctx, strings.NewReader(strings.Repeat("x", 60_000)), 80_000); err != nil {
		t.Fatal(err)
	}
	refused(read(t.Context(), strings.NewReader(strings.Repeat("x", 60_000)), 80_000), api.CodeBusy)
	refused(read(t.Context(), strings.NewReader(strings.Repeat("x", 90_000)), 80_000), api.CodeTooLarge)
	// One that does not say how long it is counts by what has come.
	refused(read(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat("x", 60_000))), 80_000), api.CodeBusy)
	if err := read(t.Context(), strings.NewReader(strings.Repeat("x", smallBody)), 80_000); err != nil {
		t.Errorf("a small body: %v", err)
	}
	answered()
	for range 1000 { // the bytes come back in a goroutine
		if err := read(t.Context(), io.MultiReader(strings.NewReader(strings.Repeat("x", 60_000))), 80_000); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the bytes of an answered request are not given back")
}

// TestSlowBodies holds that requests of which little has come leave the memory to others.
func TestSlowBodies(t *testing.T) {
	room(t, &bodies, 100_000)
	for range 3 {
		slow, send := io.Pipe()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", slow)
		r.ContentLength = 90_000
		ended := make(chan error, 1)
		go func() {
			_, err := ReadBody(r, 90_000)
			_ = slow.Close()
			ended <- err
		}()
		if _, err := send.Write([]byte("x")); err != nil {
			t.Fatal(<-ended)
		}
		defer func() {
			_ = send.Close()
			if err := <-ended; err == nil {
				t.Error("a byte of 90,000: no error")
			}
		}()
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 60_000)))
	if body, err := ReadBody(r, 90_000); err != nil || len(body) != 60_000 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

// TestBodiesWithoutLength reads bodies that do not say how long they are.
func TestBodiesWithoutLength(t *testing.T) {
	for n, want := range map[int]string{0: "", 10: "", 100: "", 101: "longer than 100 bytes"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.MultiReader(strings.NewReader(strings.Repeat("x", n))))
		body, err := ReadBody(r, 100)
		if want == "" && (err != nil || len(body) != n) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes are read as %d, %v", n, len(body), err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("half"))
	r.ContentLength = 8
	var e *api.Error
	if _, err := ReadBody(r, 100); !errors.As(err, &e) || e.Code != api.CodeBadRequest {
		t.Errorf("half a body: %v", err)
	}
}

// TestAnswersAreCounted holds that answers which nobody takes do not fill the memory, and that
// short ones are given in any case.
func TestAnswersAreCounted(t *testing.T) {
	room(t, &answers, 2*shortAnswer)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	long, short := strings.Repeat("x", shortAnswer), strings.Repeat("x", shortAnswer-2)
	if err := WriteJSON(httptest.NewRecorder(), r, long); err != nil {
		t.Fatal(err)
	}
	var e *api.Error
	if err := WriteJSON(httptest.NewRecorder(), r, long); !errors.As(err, &e) || e.Code != api.CodeBusy {
		t.Errorf("an answer too many: %v", err)
	}
	if err := WriteJSON(httptest.NewRecorder(), r, short); err != nil {
		t.Errorf("a short answer: %v", err)
	}
}

func TestConnections(t *testing.T) {
	for n, want := range map[uint64][2]int{0: {3, 1}, 256: {96, 32}, 1024: {672, 224}, 1 << 20: {6144, 2048}} {
		if tcp, unix := connections(n); tcp != want[0] || unix != want[1] {
			t.Errorf("%d descriptors: %d and %d connections, want %d", n, tcp, unix, want)
		}
	}
}

// TestConnectionsAreBounded opens one connection too many, which is told so, and
// then closes one.
func TestConnectionsAreBounded(t *testing.T) {
	bound, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	l := &boundedListener{bound, make(chan struct{}, 2), nil}
	defer l.Close()
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("unix", bound.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	dial()
	first := <-accepted
	<-accepted
	answer, err := http.ReadResponse(bufio.NewReader(dial()), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || !answer.Close || !strings.Contains(string(body), `"code":"busy"`) {
		t.Errorf("%v %s (%v)", answer.Status, body, err)
	}
	_ = first.Close()
	_ = first.Close() // gives its place back once
	dial()
	<-accepted
	if len(l.room) != 2 {
		t.Errorf("%d places are taken, want 2", len(l.room))
	}
}

// TestKeptForOperators has viewers take all the memory that they may: an operator's request has
// some left, or more than there is while they have little, and its answer is made while theirs wait
// for their turn.
func TestKeptForOperators(t *testing.T) {
	as := func(role api.Role) context.Context {
		return access.With(t.Context(), &access.Request{Caller: &api.Caller{Role: role}})
	}
	b := &budget{free: 100, kept: 30}
	if !b.has(as(api.Operator), 1000) || b.has(as(api.Viewer), 71) || !b.reserve(as(api.Viewer), 70) || b.reserve(as(api.Viewer), 1) {
		t.Error("viewers take more or less than they may")
	}
	if b.has(as(api.Operator), 31) || !b.reserve(as(api.Operator), 30) {
		t.Error("an operator has less than is kept")
	}
	for range cap(making.taken) {
		making.taken <- struct{}{}
		defer func() { <-making.taken }()
	}
	if body, err := made(as(api.Operator), func() (any, error) { return "x", nil }); err != nil || string(body) != `"x"` {
		t.Errorf("%s, %v", body, err)
	}
}

// TestLongAnswer has an answer of several parts come whole, and given up where its client does
// not take it or has left.
func TestLongAnswer(t *testing.T) {
	long := make([]byte, 3<<20+7)
	for i := range long {
		long[i] = byte(i * i >> 7)
	}
	for _, network := range []string{"tcp", "unix"} {
		bound, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network])
		if err != nil {
			t.Fatal(err)
		}
		defer bound.Close()
		l := &boundedListener{bound, make(chan struct{}, 4), nil}
		pair := func() (client, server net.Conn) {
			client, err := net.Dial(network, bound.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if server, err = l.Accept(); err != nil {
				t.Fatal(err)
			}
			return client, server
		}
		client, server := pair()
		wrote := make(chan error, 1)
		go func() {
			n, err := server.Write(long)
			if err == nil && n != len(long) {
				err = fmt.Errorf("%d bytes are written", n)
			}
			wrote <- errors.Join(err, server.Close())
		}()
		if got, err := io.ReadAll(client); err != nil || !bytes.Equal(got, long) {
			t.Errorf("%s: %d bytes come, want %d; error %v", network, len(got), len(long), err)
		}
		if err := <-wrote; err != nil {
			t.Error(network, err)
		}
		client, server = pair()
		_ = server.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := server.Write(bytes.Repeat(long, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a client that does not read: error %v", network, err)
		}
		_ = client.Close()
		client, server = pair()
		_ = client.Close()
		if _, err := server.Write(bytes.Repeat(long, 4)); err == nil {
			t.Errorf("%s: a client that has left takes the answer", network)
		}
	}
}

// TestTurns checks that a request is read when its connection has its turn, which that of the
// daemon's own user has at once.
func TestTurns(t *testing.T) {
	var limiter access.Limiter
	const waits = 100 * time.Millisecond
	for wait := time.Duration(0); wait < waits; {
		wait = limiter.Connect("127.0.0.1", time.Now())
	}
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		bound, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var read time.Duration
		server := &http.Server{ReadHeaderTimeout: waits / 2, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { read = time.Since(began) })}
		l := &boundedListener{bound, make(chan struct{}, 4), &limiter}
		go func() { _ = server.Serve(l) }()
		client, err := net.Dial(network, bound.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(client).ReadString('\n'); !strings.Contains(line, "200") {
			t.Errorf("%s: the answer is %q, %v", network, line, err)
		}
		if network == "tcp" && read < waits/2 {
			t.Errorf("a connection that waits for %v is read after %v", waits, read)
		}
		if who, _ := rights.PeerOf(client); network == "unix" && l.turn(client, who) != 0 {
			t.Error("a connection of the own user waits")
		}
		_, _ = client.Close(), server.Close()
	}
}

// TestLeavesTheQueue has a long answer wait for its turn: it is given up when its client leaves.
func TestLeavesTheQueue(t *testing.T) {
	for range cap(writing.taken) {
		writing.taken <- struct{}{}
		defer func() { <-writing.taken }()
	}
	bound, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		_, err := w.Write(make([]byte, mostWritten))
		if err == nil {
			t.Error("a client that has left takes the answer")
		}
	})}
	go func() { _ = server.Serve(&boundedListener{bound, make(chan struct{}, 4), nil}) }()
	defer server.Close()
	client, err := net.Dial("tcp", bound.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	time.Sleep(20 * time.Millisecond) // it may leave before or after its answer waits
	_ = client.Close()
	<-ended
}

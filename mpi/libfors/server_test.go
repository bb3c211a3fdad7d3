package libfors

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hostile is a server on a Unix socket that answers each request as a function does.
func hostile(t testing.TB, answer func(c net.Conn)) (where string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 4096)); err == nil {
					answer(c)
				}
			}()
		}
	}()
	return "unix:" + path
}

// TestEndlessAnswers sends answers that come slowly or never end: the library gives up at its
// timeout, however much has come, or if the answer is larger than the limit.
func TestEndlessAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	again := func(begin, text string, every time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			_, err := io.WriteString(c, begin)
			for err == nil {
				time.Sleep(every)
				_, err = io.WriteString(c, text)
			}
		}
	}
	long := strings.Repeat("x", 1<<16)
	for name, answer := range map[string]func(net.Conn){
		"slow status line":  again("", "H", 5*time.Millisecond),
		"slow headers":      again(ok, "X: y\r\n", 5*time.Millisecond),
		"slow body":         again(ok+"Content-Length: 1000000\r\n\r\n", "F", 5*time.Millisecond),
		"slow chunks":       again(ok+"Transfer-Encoding: chunked\r\n\r\n", "1\r\nF\r\n", 5*time.Millisecond),
		"slow hints":        again("", "HTTP/1.1 103 Early Hints\r\n\r\n", 5*time.Millisecond),
		"endless hints":     again("", "HTTP/1.1 103 Early Hints\r\n\r\n", 0),
		"endless body":      again(ok+"\r\n", long, 0),
		"endless chunks":    again(ok+"Transfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("%x\r\n%s\r\n", len(long), long), 0),
		"endless trailers":  again(ok+"Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n", 0),
		"endless refusal":   again("HTTP/1.1 503 No\r\n\r\n", long, 0),
		"silent after half": again(ok+"Content-Le", "", time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where := hostile(t, answer)
			got := start(t).do("open %s?timeout=300", where)[0]
			if !strings.HasPrefix(got, "error -6 ") && !strings.HasPrefix(got, "error -7 ") && !strings.HasPrefix(got, "error -11 ") {
				t.Errorf("%.200s", got)
			}
		})
	}
}

// TestSpoiledAnswers sends answers that are spoiled at random, in random pieces: the library,
// under the sanitizers, has the intended table or an error. FORS_LONG has more of them.
func TestSpoiledAnswers(t *testing.T) {
	n := 300
	if os.Getenv("FORS_LONG") != "" {
		n = 30_000
	}
	data := small(t)
	table := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nETag: \"42\"\r\nContent-Length: %d\r\n\r\n%s", len(data), data)
	chunked := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(data), data)
	news := []byte("HTTP/1.1 200 OK\r\nETag: \"43\"\r\nContent-Length: 9\r\n\r\n")
	answers := make(chan []byte)
	pieces := make(chan int, 1)
	where := hostile(t, func(c net.Conn) {
		text := <-answers
		for size := <-pieces; len(text) > 0; text = text[min(size, len(text)):] {
			if _, err := c.Write(text[:min(size, len(text))]); err != nil {
				return
			}
		}
	})
	rng := rand.New(rand.NewPCG(1, 33))
	p, opened := start(t), 0
	for i := range n {
		seed := [][]byte{table, chunked, news}[rng.IntN(3)]
		text := spoil(rng, seed)
		go func() { answers <- text; pieces <- 1 + rand.IntN(len(text)+1) }()
		got := strings.Join(p.do("open %s?timeout=2000", where), "\n")
		if strings.HasPrefix(got, "epoch 42 ") {
			opened++
		} else if !strings.HasPrefix(got, "error -") {
			t.Fatalf("answer %d, %.300q: %.300s", i, text, got)
		}
	}
	t.Logf("%d of %d answers are tables", opened, n)
	if opened == 0 || opened > n/2 {
		t.Errorf("%d of %d answers are tables: they test little", opened, n)
	}
}

// spoil changes a few bytes of an answer, more often in its head, cuts it or repeats a part.
func spoil(rng *rand.Rand, text []byte) []byte {
	out := bytes.Clone(text)
	for range rng.IntN(4) {
		at := rng.IntN(len(out))
		if rng.IntN(2) == 0 {
			at = rng.IntN(min(len(out), 90))
		}
		switch rng.IntN(5) {
		case 0:
			out[at] = byte(rng.Uint32())
		case 1:
			out[at] = "0123456789\r\n:\" "[rng.IntN(15)]
		case 2:
			out = out[:at+1]
		case 3:
			out = append(out[:at:at], append(bytes.Repeat(out[at:min(len(out), at+1+rng.IntN(20))], 1+rng.IntN(9)), out[at:]...)...)
		case 4:
			out = append(out[:at:at], out[min(len(out), at+1+rng.IntN(20)):]...)
		}
		if len(out) == 0 {
			return []byte("H")
		}
	}
	return out
}

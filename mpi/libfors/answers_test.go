package libfors

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/forsd/forsd/phasetable"
)

// script is a server that reads a request and gives the next of its answers, byte
// for byte. It keeps a connection open after an answer unless that is its last.
type script struct {
	net.Listener
	requests chan string
}

// hangUp is before an answer after which the connection is closed.
const hangUp = "\x00"

// answer starts a script on a Unix socket.
func answer(t testing.TB, answers ...string) (where string, s *script) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s = &script{l, make(chan string, len(answers)+1)}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for len(answers) > 0 {
				request := ""
				for !strings.HasSuffix(request, "\r\n\r\n") {
					line, err := in.ReadString('\n')
					if err != nil {
						break
					}
					request += line
				}
				if request == "" {
					break
				}
				_, length, _ := strings.Cut(request, "Content-Length: ")
				n, _ := strconv.Atoi(strings.TrimSpace(length)) // the last header; none: 0
				body := make([]byte, n)
				_, _ = io.ReadFull(in, body)
				s.requests <- request + string(body)
				text, last := strings.CutPrefix(answers[0], hangUp)
				_, _ = c.Write([]byte(text))
				answers = answers[1:]
				if last || !strings.HasPrefix(request, "HEAD") {
					break
				}
			}
			_ = c.Close()
		}
	}()
	return "unix:" + path, s
}

// TestForms reads a table in every form in which HTTP may send it.
func TestForms(t *testing.T) {
	p, data := start(t), string(small(t))
	half := len(data) / 2
	chunks := fmt.Sprintf("%x\r\n%s\r\n%X;name=value\r\n%s\r\n0\r\n", half, data[:half], len(data)-half, data[half:])
	length := fmt.Sprintf("Content-Length: %d\r\n\r\n", len(data))
	for name, text := range map[string]string{
		"length":             "HTTP/1.1 200 OK\r\nETag: \"42\"\r\n" + length + data,
		"more than asked":    "HTTP/1.1 200 OK\r\n" + length + data + "HTTP/1.1 400 ...",
		"chunks":             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "\r\n",
		"trailers":           "HTTP/1.1 200 OK\r\ntransfer-encoding:Chunked\r\n\r\n" + chunks + "Expires: never\r\n\r\n",
		"chunks of one byte": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + byteChunks(data),
		"until the end":      "HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n" + data,
		"bare line ends":     "HTTP/1.1 200\n" + strings.ReplaceAll(length, "\r", "") + data,
		"early hints":        "HTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n" + length + data,
	} {
		where, s := answer(t, text)
		if got := p.do("open %s", where)[0]; !strings.HasPrefix(got, "epoch 42 ") {
			t.Errorf("%s: %s", name, got)
		}
		want := "GET /v1/plan/phases?format=binary HTTP/1.1\r\nHost: forsd\r\nUser-Agent: libfors/1.5\r\n" +
			"Accept: application/vnd.forsd.phasetable\r\nConnection: close\r\n\r\n"
		if got := <-s.requests; got != want {
			t.Errorf("%s: request %q, want %q", name, got, want)
		}
	}
}

func byteChunks(data string) string {
	var b strings.Builder
	for i := range len(data) {
		b.WriteString("1\r\n" + data[i:i+1] + "\r\n")
	}
	return b.String() + "0\r\n\r\n"
}

// TestBadAnswers gives answers that no server should give.
func TestBadAnswers(t *testing.T) {
	data := string(small(t))
	p := start(t)
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string][2]string{
		"nothing":               {"", "error -5 0 0 "},
		"not HTTP":              {"220 mail.example ESMTP\r\n\r\n", "error -7 0 0 the answer begins with \"220 mail.example ESMTP\""},
		"other version":         {"HTTP/2.0 200 OK\r\n\r\n", "error -7 "},
		"no status":             {"HTTP/1.1 OK\r\n\r\n", "error -7 "},
		"odd status":            {"HTTP/1.1 2000 OK\r\n\r\n", "error -7 "},
		"cut in the headers":    {ok + "Content-Le", "error -5 0 0 "},
		"cut in the body":       {ok + "Content-Length: 1000\r\n\r\nFORS", "error -5 0 0 "},
		"cut in a chunk":        {ok + "Transfer-Encoding: chunked\r\n\r\nff\r\nFORS", "error -5 0 0 "},
		"endless line":          {ok + "X: " + strings.Repeat("x", 2000), "error -7 0 0 the headers of the answer are too long"},
		"endless headers":       {ok + strings.Repeat("X: "+strings.Repeat("x", 90)+"\r\n", 400), "error -7 0 0 the headers of the answer are too long"},
		"negative length":       {ok + "Content-Length: -1\r\n\r\n", "error -7 "},
		"two lengths":           {ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "error -7 "},
		"length out of range":   {ok + "Content-Length: 99999999999999999999\r\n\r\n", "error -7 "},
		"huge":                  {ok + "Content-Length: 1073741825\r\n\r\n", "error -11 0 0 a table of 1073741825 bytes"},
		"other encoding":        {ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", "error -7 "},
		"bad chunk":             {ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "error -7 0 0 a chunk begins with \"xyz\""},
		"chunk out of range":    {ok + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "error -7 "},
		"chunk longer than it":  {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nFORS\r\n0\r\n\r\n", "error -7 0 0 a chunk is longer than its size"},
		"empty table":           {ok + "Content-Length: 0\r\n\r\n", "error -12 0 0 0 bytes are less than the header"},
		"not changed":           {"HTTP/1.1 304 Not Modified\r\nETag: \"42\"\r\n\r\n", "the table is said not to have changed"},
		"spoiled table":         {ok + "Content-Length: 192\r\n\r\n" + data[:192], "error -12 0 0 192 bytes of the "},
		"forbidden":             {"HTTP/1.1 403 Forbidden\r\nContent-Length: 35\r\n\r\n{\"error\":\"reading \\\"is\\\" off\",\"code\":1}", "status 403: reading \"is\" off"},
		"refused without words": {"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "error -8 0 500 "},
		"cut words":             {"HTTP/1.1 500 Oops\r\nContent-Length: 11\r\n\r\n{\"error\":\"\\", "status 500: forsd refused the request"},
		"moved":                 {"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "error -8 0 301 "},
	} {
		where, _ := answer(t, c[0])
		got := p.do("open %s", where)[0]
		if without := strings.Replace(got, where+": ", "", 1); without == got {
			t.Errorf("%s: %s, which does not say where", name, got)
		} else if !strings.HasPrefix(got, "error ") || !strings.Contains(without, c[1]) {
			t.Errorf("%s: %s, want %s", name, got, c[1])
		}
	}
}

// TestSilence gives up on a server that accepts a connection and sends nothing, and
// never waits for it when it asks for news.
func TestSilence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t)
	p.contains("open unix:"+path+"?timeout=20", "error -6 0 0 unix:"+path+"?timeout=20: no whole answer within 20 ms")

	data := small(t)
	where, s := answer(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data), data), "", "")
	p.contains("open "+where, "epoch 42 ")
	<-s.requests
	for range 3 {
		p.wants("newer", "0 0")
	}
	if request := <-s.requests; !strings.HasPrefix(request, "HEAD ") {
		t.Errorf("request %q", request)
	}
}

// TestWatchKeepsItsConnection answers that nothing has changed, and wants the next
// request on the same connection.
func TestWatchKeepsItsConnection(t *testing.T) {
	data := small(t)
	where, s := answer(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data), data),
		"HTTP/1.1 304 Not Modified\r\nETag: \"42\"\r\n\r\n", "HTTP/1.1 200 OK\r\nETag: \"42\"\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 200 OK\r\nETag: W/\"41\"\r\nTransfer-Encoding: chunked\r\n\r\n")
	p := start(t)
	p.contains("open "+where, "epoch 42 ")
	<-s.requests
	p.wants("await", "1 41") // a new store counts from 1: any other epoch is news
	for range 3 {
		want := "HEAD /v1/plan/phases?format=binary HTTP/1.1\r\nHost: forsd\r\nUser-Agent: libfors/1.5\r\n" +
			"Accept: application/vnd.forsd.phasetable\r\nIf-None-Match: \"42\"\r\nPrefer: wait=300\r\n\r\n"
		if got := <-s.requests; got != want {
			t.Errorf("request %q, want %q", got, want)
		}
	}
}

// TestWatchReconnects makes the server close a connection after an answer, with and without
// a header that says so. The library asks again on another connection and reports nothing.
func TestWatchReconnects(t *testing.T) {
	data := small(t)
	where, s := answer(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data), data),
		"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n", hangUp+"HTTP/1.1 304 Not Modified\r\n\r\n", "HTTP/1.1 200 OK\r\nETag: \"43\"\r\n\r\n")
	p := start(t)
	p.contains("open "+where, "epoch 42 ")
	p.wants("await", "1 43")
	if len(s.requests) != 4 {
		t.Errorf("%d requests, want 4", len(s.requests))
	}
}

// TestWatchSaysWhatIsWrong checks that the daemon's errors are passed on.
func TestWatchSaysWhatIsWrong(t *testing.T) {
	data := small(t)
	table := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data), data)
	for name, c := range map[string][2]string{
		"no job any more": {"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\n", "error -8 0 404 "},
		"no plan":         {"HTTP/1.1 503 Service Unavailable\r\n\r\n", "error -9 0 503 "},
		"no epoch":        {"HTTP/1.1 200 OK\r\nETag: \"new\"\r\n\r\n", "error -7 0 0 "},
		"no HTTP":         {"hello\r\n", "error -7 0 0 "},
	} {
		t.Run(name, func(t *testing.T) {
			where, _ := answer(t, table, c[0])
			p := start(t)
			p.contains("open "+where, "epoch 42 ")
			p.contains("await", c[1])
		})
	}
}

// TestRemaining asks for the rest of an exchange, and gets a table that is followed like any
// other.
func TestRemaining(t *testing.T) {
	data := small(t)
	table := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data), data)
	where, s := answer(t, table, table, table, "HTTP/1.1 409 Conflict\r\nContent-Length: 30\r\n\r\n{\"error\":\"no such epoch: 42\"} ",
		"HTTP/1.1 200 OK\r\nETag: \"43\"\r\n\r\n")
	p := start(t)
	p.contains("open "+where, "epoch 42 ")
	<-s.requests
	p.contains("remaining 3", "error -1 0 0 fors_remaining: 3 phases are done of 2")
	for command, body := range map[string]string{
		"remaining 1": `{"epoch":42,"done":1,"fail":[]}`,
		`remaining 2|Spine010|Leaf "7" \ é` + "\t/31": `{"epoch":42,"done":2,"fail":["Spine010","Leaf \"7\" \\ é\u0009/31"]}`,
	} {
		p.contains(command, "epoch 42 ")
		want := "POST /v1/whatif?format=binary HTTP/1.1\r\nHost: forsd\r\nUser-Agent: libfors/1.5\r\nAccept: application/vnd.forsd.phasetable\r\n" +
			fmt.Sprintf("Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if got := <-s.requests; got != want {
			t.Errorf("%s: request %q, want %q", command, got, want)
		}
	}
	p.contains("remaining 0", "error -8 0 409 "+where+": status 409: no such epoch: 42")
	p.wants("await", "1 43")
	p.contains("memory "+write(t, data), "epoch 42 ")
	p.contains("remaining 1", "error -25 ")
}

// TestRemainingOfJob names the job whose exchange it is.
func TestRemainingOfJob(t *testing.T) {
	view, err := phasetable.Decode(small(t))
	if err != nil {
		t.Fatal(err)
	}
	of7 := view.Table()
	of7.Job = 7
	data, _ := encode(t, of7)
	table := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(data), data)
	where, s := answer(t, table, table)
	p := start(t)
	p.contains("open "+where+"?job=7", "epoch 42 ")
	<-s.requests
	p.contains("remaining 1", "epoch 42 ")
	if body := `{"epoch":42,"done":1,"job":"7","fail":[]}`; !strings.HasSuffix(<-s.requests, "\r\n\r\n"+body) {
		t.Errorf("the request does not ask %s", body)
	}
}

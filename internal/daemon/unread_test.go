package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/authority"
	"github.com/forsd/forsd/testbed/fabgen"
)

// endless reports the bytes read of 1 MB of zeros, after which it blocks.
type endless struct {
	took chan int
	left int
	done <-chan struct{}
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		<-e.done
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), e.left)
	e.left -= n
	e.took <- n
	return n, nil
}

// TestUnreadBodies opens many connections over TLS, by any protocol that forsd agrees to, on
// which a viewer waits for plans or requests them, each with an unfinished body of 1 MB.
// forsd keeps only as many bodies as it has memory for, and releases the connections' memory
// when the clients have left. With FORS_LONG, there are 1000 connections.
func TestUnreadBodies(t *testing.T) {
	t.Parallel()
	clients := 150
	if os.Getenv("FORS_LONG") != "" {
		clients = 1000
	}
	dir, f, ca, address := t.TempDir(), fabric(4, 4), authority.New(t, "authority"), freeAddress(t)
	_, cert, key := ca.Issue(t, "forsd", time.Now().Add(time.Hour))
	for name, text := range map[string][]byte{"cert.pem": cert, "key.pem": key, "guid2lid": fabgen.GUID2LID(f), "opensm-subnet.lst": fabgen.SubnetLst(f)} {
		ok(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	b := besiegeIn(t, dir, "", fmt.Sprintf(", tls: {listen: %q, certificate: %s/cert.pem, key: %[2]s/key.pem}", address, dir), "FORSD_TEST_FILES=8192")
	root, err := api.Dial(b.socket)
	ok(t, err)
	defer root.Close()
	token, err := root.CreateToken(t.Context(), api.TokenRequest{Name: "viewer", Role: api.Viewer})
	ok(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	before := b.resident(t)
	took, leave := make(chan int, 1<<16), make(chan struct{})
	var transports []*http.Transport
	for n := range clients {
		ask := [][2]string{{http.MethodGet, "/v1/plan"}, {http.MethodPost, "/v1/whatif"}}[n%2]
		by := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
		transports = append(transports, by)
		r, err := http.NewRequestWithContext(t.Context(), ask[0], "https://"+address+ask[1], &endless{took, 1<<20 - 1, leave})
		ok(t, err)
		r.ContentLength = 1 << 20
		r.Header.Set("Authorization", "Bearer "+token.Secret)
		r.Header.Set("Prefer", "wait=300")
		r.Header.Set("Content-Type", "application/json")
		go func() {
			if a, err := by.RoundTrip(r); err == nil {
				_ = a.Body.Close()
			}
		}()
	}
	sent, quiet := 0, false
	for !quiet {
		select {
		case n := <-took:
			sent += n
		case <-time.After(3 * time.Second):
			quiet = true
		}
	}
	if most := before + 50 + clients/8; b.resident(t) > most {
		t.Errorf("with %d bodies forsd has %d MB, and %d before: want at most %d", clients, b.resident(t), before, most)
	}
	t.Logf("%d connections have sent %d MB; forsd has %d MB, and %d before", clients, sent>>20, b.resident(t), before)
	if sent < clients*1000 {
		t.Errorf("only %d bytes were sent", sent)
	}
	close(leave)
	for _, by := range transports {
		by.CloseIdleConnections()
	}
	for due := time.Now().Add(12 * watchdogEvery); ; time.Sleep(100 * time.Millisecond) {
		if now := b.resident(t); now <= before+25 {
			t.Logf("when they have left it has %d MB", now)
			return
		} else if time.Now().After(due) {
			t.Fatalf("long after they have left forsd has %d MB, and %d before", now, before)
		}
	}
}

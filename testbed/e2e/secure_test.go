package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/forsd/forsd/testbed/authority"
	"github.com/forsd/forsd/testbed/fabgen"
)

// TestPeerOverTLS makes two forsd follow each other over TLS, by certificates: the lead is
// handed over and back. A forsd with the certificate of another authority is refused,
// and reports it, until it has a good one.
func TestPeerOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := authority.New(t, "authority")
	put := func(a *authority.Authority, to Secure) {
		t.Helper()
		_, certificate, key := a.Issue(t, "forsd", time.Now().Add(time.Hour))
		if err := errors.Join(os.WriteFile(to.Certificate, certificate, 0o600), os.WriteFile(to.Key, key, 0o600), os.WriteFile(to.CA, ca.PEM(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var files [2]Secure
	for i, name := range []string{"x", "y"} {
		files[i] = Secure{freeAddress(t), filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"), filepath.Join(dir, "ca.pem")}
		put(ca, files[i])
	}
	x, y, healthy := pair(t, Options{Fabric: fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4}), LMC: 2, TLS: &files})
	first := x.settled(nil)
	x.SM.Kill()
	second := y.leads(nil)
	y.unmoved(healthy, y.check())
	x.follows(y)
	x.ok(x.SM.Restart(x.ctx))
	third := x.leads(nil)
	x.check()
	y.follows(x)
	if first.Epoch != second.Epoch || second.Epoch != third.Epoch {
		t.Errorf("nothing has changed, and epoch %d became %d and %d: what the other one had was not taken over", first.Epoch, second.Epoch, third.Epoch)
	}
	x.ok(y.KillForsd(x.ctx))
	put(authority.New(t, "another"), files[1])
	x.ok(y.StartForsd())
	y.warned("peer-unreachable")
	x.ok(y.KillForsd(x.ctx))
	put(ca, files[1])
	x.ok(y.StartForsd())
	y.follows(x)
	x.check()
}

package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/forsd/forsd/api"
)

// TestLateAnswer kills forsd while OpenSM, which is stopped, still has to answer it, and lets
// OpenSM go on when the next forsd is up. The answer is not for that one, and does it no
// harm: it has not registered for such a class yet.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	o := small()
	o.Reports = true
	x, _ := up(t, 5*time.Minute, o)
	for range 2 {
		x.ok(x.SM.Signal(syscall.SIGSTOP))
		x.ok(x.KillForsd(x.ctx), x.StartForsd())
		time.Sleep(2 * time.Second) // it asks for traps
		x.ok(x.KillForsd(x.ctx), x.StartForsd())
		x.until("forsd serves its API", func(*api.Status) bool { return true })
		x.ok(x.SM.Signal(syscall.SIGCONT))
		time.Sleep(time.Second)
		x.settled(nil)
	}
	x.check()
}

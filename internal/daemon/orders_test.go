package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/config"
)

// TestOrders sends every order of an operator over the socket. Each leaves an event and a
// line in the log, with the user, whether it is carried out or refused.
func TestOrders(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	var level config.LogLevel
	told := make(chan string, 1000)
	s := running(t, fabric(4, 4), func(d *Daemon) { d.backend.Log, d.notify = zap.New(core), func(state string) { told <- state } })
	for state := ""; state != "STATUS=epoch 1 is in force"; { // in systemctl status
		select {
		case state = <-told:
		case <-s.ctx.Done():
			t.Fatal("systemd is not told of the epoch")
		}
	}
	s.reloads(&level)("")
	c, err := api.Dial(s.cfg.API.Socket)
	ok(t, err)
	first := strconv.FormatInt(s.started.UnixNano(), 36) + "-0"
	ctx := s.ctx
	for _, o := range []struct {
		order, result string
		do            func() error
	}{
		{"reroute", "planned, programmed and read back anew", func() error { _, err := c.Reroute(ctx); return err }},
		{"rollback to epoch 99", "refused: epoch 99 is not put in force: ", func() error { _, err := c.Rollback(ctx, 99); return err }},
		{"job create eve", "job 2 is planned", func() error {
			_, err := c.CreateJob(ctx, api.JobRequest{Name: "eve", Hosts: names(0, 5), LeaseSeconds: 60})
			return err
		}},
		{"job create", "refused: ", func() error {
			_, err := c.CreateJob(ctx, api.JobRequest{Hosts: []string{"nobody"}, LeaseSeconds: 60})
			return err
		}},
		{"job renew eve", "job 2 has a lease of 1h0m0s", func() error { _, err := c.RenewJob(ctx, "eve", time.Hour); return err }},
		{"job rm eve", "job 2 has ended", func() error { _, err := c.RemoveJob(ctx, "eve"); return err }},
		{"baseline accept", "the fabric as it is now is the baseline", func() error { return c.Call(ctx, "POST", "/v1/baseline/accept", nil, &api.Change{}) }},
		{"POST /v1/undrain", `refused: "Spine009" is not drained`, func() error { _, err := c.Undrain(ctx, "Spine009"); return err }},
		{"reload", "changed [], restart needed for []", func() error { _, err := c.Reload(ctx, api.ReloadRequest{}); return err }},
	} {
		if err := o.do(); (err != nil) != strings.HasPrefix(o.result, "refused") {
			t.Errorf("%s: %v", o.order, err)
		}
		me, err := user.Current()
		ok(t, err)
		var said api.Order
		for e, err := range c.Watch(ctx, first) {
			ok(t, err)
			if first = e.ID; e.Kind == api.KindOrder {
				ok(t, json.Unmarshal(e.Data, &said))
				break
			}
		}
		process := filepath.Base(os.Args[0])
		if said.What != o.order || !strings.HasPrefix(said.Result, o.result) || said.By == nil || said.By.User != me.Username || said.By.PID != int32(os.Getpid()) || !strings.HasPrefix(process, said.By.Process) {
			t.Errorf("%s: the event tells of %+v by %v", o.order, said, said.By)
		}
		found := lines.FilterMessage("ordered").FilterField(zap.String("order", o.order)).TakeAll()
		if len(found) != 1 {
			t.Errorf("%s: %d lines", o.order, len(found))
			continue
		}
		fields := found[0].ContextMap()
		if text := fmt.Sprint(fields["text"]); !strings.HasPrefix(text, o.result) || fields["user"] != me.Username || fmt.Sprint(fields["uid"]) != me.Uid || fmt.Sprint(fields["pid"]) != strconv.Itoa(os.Getpid()) {
			t.Errorf("%s: the line has %v", o.order, fields)
		}
	}
}

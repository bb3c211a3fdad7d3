package journal

import (
	"errors"
	"os"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// sent holds the entries sent to the journal.
type sent struct {
	message  string
	priority journal.Priority
	vars     map[string]string
}

func TestEntries(t *testing.T) {
	var got []sent
	instead, spare := observer.New(zapcore.DebugLevel)
	fail := false
	c := &core{LevelEnabler: zapcore.InfoLevel, queue: NewQueue(os.Stderr), instead: instead, send: func(m string, p journal.Priority, vars map[string]string) error {
		if fail {
			return errors.New("no journal")
		}
		got = append(got, sent{m, p, vars})
		return nil
	}}
	log := zap.New(c)
	log.Debug("not seen")
	log.Info("published", zap.Uint64("epoch", 7), zap.Strings("what", []string{"a went down", "b too"}))
	log.With(zap.String("user", "anna")).Warn("Cables are down", zap.String("code", "cable-down"), zap.String("severity", "degraded"), zap.String("text", "Leaf007 port 31"))
	log.Warn("Disk", zap.String("severity", "critical"))
	log.Info("Restart needed", zap.String("severity", "info"))
	log.Error("forsd ends", zap.Error(errors.New("why")))
	_ = log.Sync()
	want := []sent{
		{"published (epoch=7, what=a went down, b too)", journal.PriInfo, map[string]string{"FORSD_EPOCH": "7", "FORSD_WHAT": "a went down, b too"}},
		{"Cables are down: Leaf007 port 31 (user=anna, code=cable-down, severity=degraded)", journal.PriWarning,
			map[string]string{"FORSD_USER": "anna", "FORSD_CODE": "cable-down", "FORSD_SEVERITY": "degraded", "FORSD_TEXT": "Leaf007 port 31"}},
		{"Disk (severity=critical)", journal.PriCrit, map[string]string{"FORSD_SEVERITY": "critical"}},
		{"Restart needed (severity=info)", journal.PriNotice, map[string]string{"FORSD_SEVERITY": "info"}},
		{"forsd ends (error=why)", journal.PriErr, map[string]string{"FORSD_ERROR": "why"}},
	}
	for i := range want {
		want[i].vars["SYSLOG_IDENTIFIER"] = "forsd"
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sent{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	fail = true
	log.With(zap.Int("pid", 3)).Info("kept")
	_ = log.Sync()
	if all := spare.All(); len(all) != 1 || all[0].Message != "kept" || all[0].ContextMap()["pid"] != int64(3) {
		t.Errorf("what the journal does not take: %+v", all)
	}
}

package opensm

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logLines are lines as OpenSM 3.3.23 wrote them, and the events that they mean; "" is no
// event.
var logLines = []struct{ line, want string }{
	{"Nov 20 13:00:09 000297 [D1CF1740] 0x03 -> OpenSM 3.3.23", ""},
	{"Nov 20 13:00:09 000770 [D1CF1740] 0x80 -> OpenSM 3.3.23", ""},
	{"Nov 20 13:00:09 035918 [D1CF1740] 0x02 -> osm_vendor_init: 1000 pending umads specified", ""},
	{"Nov 20 13:00:09 038263 [D1CF1740] 0x01 -> setup_routing_engines: Failed to setup routing engine 'no_fallback'", ""},
	{"Nov 20 13:00:09 045469 [CECEA6C0] 0x80 -> Entering MASTER state", "master entered"},
	{"Nov 20 13:00:15 250736 [2CF6F6C0] 0x80 -> Entering STANDBY state", "standby entered"},
	{"Nov 20 13:00:09 048369 [CECEA6C0] 0x02 -> osm_ucast_mgr_process: file tables configured on all switches", "engine used file"},
	{"Nov 20 13:00:15 182809 [F0BBF6C0] 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches", "engine used minhop fallback"},
	{"Nov 20 13:00:09 051163 [CECEA6C0] 0x02 -> SUBNET UP", "subnet up"},
	{"Nov 20 13:00:09 102117 [CECEA6C0] 0x01 -> do_ucast_file_load: PARSE ERROR: /p/lfts:2: cannot parse port: 'zz", "table file rejected"},
	{"'", ""},
	{"Nov 20 13:00:10 603729 [CECEA6C0] 0x01 -> do_ucast_file_load: Invalid port 255 found for switch 0000000000200000", "table file rejected"},
	{"Nov 20 13:00:13 607549 [CECEA6C0] 0x81 -> do_ucast_file_load: ERR 6303: Multicast dump file detected; skipping parsing. Using default routing algorithm", "table file rejected"},
	{"Nov 20 13:00:13 613584 [CECEA6C0] 0x81 -> do_ucast_file_load: ERR 6302: Can't open ucast dump file '/p/lfts': No such file or directory", "table file rejected"},
	{"Nov 20 13:00:09 102127 [CECEA6C0] 0x01 -> ucast_mgr_route: file: cannot build fwd tables", ""},
	{"Nov 20 13:00:09 102129 [CECEA6C0] 0x01 -> osm_ucast_mgr_process: No routing engine able to successfully configure  switch tables on current fabric", "routing failed"},
	{"Nov 20 13:00:15 241639 [F33C46C0] 0x01 -> log_trap_info: Received Generic Notice type:4 num:144 (CapabilityMask) Producer:1 (Channel Adapter) from LID:10 TID:0x0000000000000000", ""},
	{"Nov 20 13:00:15 241639 [F33C46C0] 0x01 -> log_trap_info: Received Generic Notice type:1 num:128 (Link state change) Producer:2 (Switch) from LID:34 TID:0x0000000000000000", "trap received 34"},
	{"Nov 20 13:00:15 241639 [F33C46C0] 0x01 -> log_trap_info: Received Generic Notice type:1 num:128 (Link state change) Producer:2 (Switch) from LID:3", ""},
	{"Nov 20 13:00:15 241645 [F33C46C0] 0x02 -> log_notice: Reporting Urgent Notice \"Link state change\" from switch LID 34, GUID 0x0000000000200000", "trap told 34"},
	{"Nov 20 13:00:16 255733 [EFBBD6C0] 0x01 -> sm_mad_ctrl_rcv_callback: Ignoring received mad - since we are exiting", ""},
	{"Nov 20 13:00:17 000001 [EFBBD6C0] 0x80 -> Errors during initialization", "sweep failed"},
	{"Nov 20 13:00:17 000001 [EFBBD6C0] 0x01 -> osm_dump_qmap_to_file: cannot create file '/x/opensm-subnet.lst': Permission denied", "other error"},
	{"Nov 20 13:00:16 256614 [F3BC6740] 0x80 -> Exiting SM", ""},
	{"-> SUBNET UP", ""},
	{"", ""},
}

// describeEvent spells an event for comparison.
func describeEvent(e LogEvent) string {
	s := e.Kind.String()
	if e.Engine != "" {
		s += " " + e.Engine
	}
	if e.LID != 0 {
		s += " " + strconv.Itoa(int(e.LID))
	}
	if e.Fallback() {
		s += " fallback"
	}
	return s
}

func TestClassifyLog(t *testing.T) {
	for _, c := range logLines {
		e, ok := ClassifyLog(c.line)
		got := ""
		if ok {
			got = describeEvent(e)
			if !strings.HasSuffix(c.line, e.Text) || e.Text == "" {
				t.Errorf("text %q of %q", e.Text, c.line)
			}
		}
		if got != c.want {
			t.Errorf("%q is %q, want %q", c.line, got, c.want)
		}
	}
}

// TestEffect replays a log as a whole: what is in force after every line.
func TestEffect(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Kinds() {
		known[k.Code] = true
	}
	force := map[string]bool{}
	for i, step := range []struct{ line, inForce string }{
		{"a 0x80 -> Entering STANDBY state", Standby},
		{"a 0x80 -> Entering MASTER state", ""},
		{"a 0x02 -> m: file tables configured on all switches", ""},
		{"a 0x01 -> do_ucast_file_load: PARSE ERROR", FileRejected},
		{"a 0x01 -> m: No routing engine able to", NoTables + FileRejected},
		{"a 0x02 -> m: updn tables configured on all switches", EngineFallback + FileRejected},
		{"a 0x02 -> m: file tables configured on all switches", ""},
		{"a 0x80 -> Errors during initialization", SweepErrors},
		{"a 0x01 -> something else", SweepErrors},
		{"a 0x02 -> SUBNET UP", ""},
	} {
		e, ok := ClassifyLog(step.line)
		raise, ends := e.Effect()
		if !ok || raise != "" && !known[raise] {
			t.Errorf("step %d: %+v raises %q", i, e, raise)
		}
		if raise != "" {
			force[raise] = true
		}
		for _, code := range ends {
			if !known[code] {
				t.Errorf("step %d ends %q, which is unknown", i, code)
			}
			delete(force, code)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(force)), ""); got != step.inForce {
			t.Errorf("step %d: %q is in force, want %q", i, got, step.inForce)
		}
	}
}

// TestFollow adds to a log, rotates and truncates it; every line is reported once.
func TestFollow(t *testing.T) {
	const up, master, standby = "a b c 0x02 -> SUBNET UP", "a 0x80 -> Entering MASTER state", "a 0x80 -> Entering STANDBY state"
	path := filepath.Join(t.TempDir(), "log")
	appendLog := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	move := func() {
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
	}
	appendLog(standby + "\n")
	synctest.Test(t, func(t *testing.T) {
		var got []string
		l := LogFollower{Path: path, Poll: time.Second, Event: func(e LogEvent) { got = append(got, e.Kind.String()) }, Report: func(err error) { t.Error(err) }}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		expect := func(want ...string) {
			t.Helper()
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if !slices.Equal(got, want) {
				t.Fatalf("events %q, want %q", got, want)
			}
			got = nil
		}
		expect() // what was there before does not count
		appendLog(up + "\n" + master)
		expect("subnet up") // the second line has no end yet
		appendLog("\nnoise\n")
		expect("master entered")
		appendLog(master + "\n")
		move()
		appendLog(up + "\n") // between two looks: the end of the old one, then the new one
		expect("master entered", "subnet up")
		move()
		expect() // not there for a while
		appendLog(master + "\n")
		expect("master entered")
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		appendLog(up + "\n")
		expect("subnet up")
		appendLog(strings.Repeat("x", 3*maxLogLine) + "\n" + up + "\n" + strings.Repeat("y", logChunk) + "\n" + up + "\n")
		expect("subnet up", "subnet up")
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	var all []string
	t.Run("from the start", func(t *testing.T) {
		tail := &tail{path: path, line: func(s string) { all = append(all, s) }}
		defer tail.close()
		if err := tail.read(); err != nil || len(all) != 5 {
			t.Errorf("%d lines, %v", len(all), err)
		}
	})
}

func TestFollowReportsErrors(t *testing.T) {
	dir := t.TempDir() // a directory opens, and cannot be read
	errs := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	l := LogFollower{Path: dir, FromStart: true, Poll: time.Second, Report: func(err error) { errs <- err; stop() }}
	_ = l.Run(ctx)
	mustContain(t, <-errs, dir)
}

func FuzzClassifyLog(f *testing.F) {
	for _, c := range logLines {
		f.Add(c.line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, ok := ClassifyLog(line)
		if ok != (e.Kind != 0) || ok && !strings.Contains(line, e.Text) {
			t.Errorf("%q gave %+v, %v", line, e, ok)
		}
		if strings.ContainsAny(e.Engine, " \n") || e.Engine != "" && e.Kind != EngineUsed {
			t.Errorf("%q gave the engine %q", line, e.Engine)
		}
	})
}

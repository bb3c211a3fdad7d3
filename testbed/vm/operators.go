package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/testbed/e2e"
)

// entry is a line of the journal, as far as the steps look at it.
type entry struct {
	Message  string `json:"MESSAGE"`
	Priority string `json:"PRIORITY"`
	Unit     string `json:"_SYSTEMD_UNIT"`
	Code     string `json:"FORSD_CODE"`
	Severity string `json:"FORSD_SEVERITY"`
	Text     string `json:"FORSD_TEXT"`
	Epoch    string `json:"FORSD_EPOCH"`
	Order    string `json:"FORSD_ORDER"`
	User     string `json:"FORSD_USER"`
	UID      string `json:"FORSD_UID"`
	Process  string `json:"FORSD_PROCESS"`
	PID      string `json:"FORSD_PID"`
}

// logged waits for a line of forsd's in the journal with the fields asked for, and returns
// the last one.
func (s *site) logged(ctx context.Context, match string) (e entry) {
	s.until(ctx, "a line with "+match, func(try *site) {
		if err := json.Unmarshal([]byte(try.must(ctx, "journalctl -b -u forsd -n 1 -o json "+match)), &e); err != nil {
			try.fail("there is none: %w", err)
		}
	})
	return e
}

// journal: systemd's journal has forsd's lines with their priorities and fields, and who
// ordered what.
func (s *site) journal(ctx context.Context) string {
	before := s.status(ctx)
	s.all(ctx, "forsctl reroute", "! forsctl rollback 999999", "forsctl job create --nodes 'Hca000[1-4]' --name journal", "forsctl job rm journal")
	for _, c := range []struct {
		match string
		want  entry
	}{
		{"FORSD_CODE=cable-down FORSD_SEVERITY=degraded", entry{Priority: "4", Severity: "degraded", Message: "Cables are down: "}},
		{"FORSD_EPOCH=" + fmt.Sprint(before.Epoch), entry{Priority: "6", Epoch: fmt.Sprint(before.Epoch)}},
		{"FORSD_ORDER=reroute", entry{Priority: "6", Message: "ordered: planned, programmed and read back anew", Order: "reroute", User: "root", UID: "0", Process: "forsctl"}},
		{"'FORSD_ORDER=rollback to epoch 999999'", entry{Priority: "6", Message: "ordered: refused: epoch 999999 is not put in force", User: "root", UID: "0", Process: "forsctl"}},
		{"'FORSD_ORDER=job create journal'", entry{Priority: "6", User: "root", UID: "0", Process: "forsctl"}},
		{"'FORSD_ORDER=job rm journal'", entry{Priority: "6", User: "root", UID: "0", Process: "forsctl"}},
	} {
		got := s.logged(ctx, c.match)
		w := c.want
		if got.Unit != "forsd.service" || got.Priority != w.Priority || !strings.HasPrefix(got.Message, w.Message) || w.Severity != "" && got.Severity != w.Severity ||
			w.Epoch != "" && got.Epoch != w.Epoch || w.User != "" && (got.User != w.User || got.UID != w.UID || got.Process != w.Process || got.PID == "") {
			s.fail("the line with %s is %+v, want %+v", c.match, got, w)
		}
	}
	return "priorities and fields of warnings, epochs and orders; each order with user and process"
}

// reload: a wrong configuration is refused and changes nothing, a good one counts at once;
// forsd's process stays.
func (s *site) reload(ctx context.Context) string {
	s.all(ctx, "cp /etc/forsd/forsd.yaml /root; systemctl show -P MainPID forsd >/root/pid; echo 'planing: {}' >>/etc/forsd/forsd.yaml", "! systemctl reload forsd")
	s.says(ctx, "journalctl -b -u forsd -n 5", "planing: is unknown", "/etc/forsd/forsd.yaml:")
	s.says(ctx, "forsctl reload; echo code $?", "planing: is unknown", "code 1")
	s.await(ctx, "the warning", func(t *api.Status) bool { return inForce(t) && e2e.HasWarning(t, "configuration-refused") })
	s.byPage(ctx, "configuration-refused", "")
	all := s.leaves * s.spines
	const without = `sed 's/^  exclude: .*/  exclude: "^Hca0001"/; s/^keep_epochs: .*/keep_epochs: 9/' /root/forsd.yaml >/etc/forsd/forsd.yaml; grep -q '^  exclude: "^Hca0001"' /etc/forsd/forsd.yaml`
	s.all(ctx, without, "systemctl reload forsd")
	s.await(ctx, "a plan without a host", func(t *api.Status) bool {
		return inForce(t) && t.Servers == all-1 && e2e.HasWarning(t, "configuration-waits") && !e2e.HasWarning(t, "configuration-refused")
	})
	s.all(ctx, "mv /root/forsd.yaml /etc/forsd/forsd.yaml; forsctl reload")
	s.await(ctx, "a plan of all hosts", func(t *api.Status) bool {
		return inForce(t) && t.Servers == all && !e2e.HasWarning(t, "configuration-waits")
	})
	s.all(ctx, "[ $(systemctl show -P MainPID forsd) = $(cat /root/pid) ] && [ $(systemctl show -P ActiveState forsd) = active ]")
	s.verified(ctx)
	return "a wrong file is refused and changes nothing, a good one is taken up; the process stays"
}

// rights: users who lack rights are told how to get them, and that works.
func (s *site) rights(ctx context.Context) string {
	s.all(ctx, "useradd anna")
	s.says(ctx, "runuser -u anna -- forsctl status; echo code $?", "user anna is not in the group forsd", "sudo usermod -aG forsd anna", "code 2")
	s.all(ctx, "usermod -aG forsd anna", "runuser -u anna -- forsctl status || [ $? -eq 1 ]")
	s.says(ctx, "runuser -u anna -- forsctl setup --conf /etc/opensm/new.conf --topology /var/log/opensm-subnet.lst", "user anna lacks write permission on /etc/opensm", "run it with sudo")
	s.all(ctx, "chmod 700 /var/log")
	refused := s.await(ctx, "the warning of a directory that forsd cannot read", func(t *api.Status) bool { return e2e.HasWarning(t, "dump-refused") })
	for _, w := range refused.Warnings {
		if w.Code == "dump-refused" && !strings.Contains(w.Text, "user forsd lacks search permission on /var/log (drwx------, owner root, group root): run chmod o+x /var/log, or setfacl") {
			s.fail("the warning says %q", w.Text)
		}
	}
	s.says(ctx, "forsctl doctor", "user forsd lacks read and search permission on /var/log", "run chmod o+rx /var/log")
	s.all(ctx, "chmod o+rx /var/log")
	s.await(ctx, "the end of the warning", func(t *api.Status) bool { return inForce(t) && !e2e.HasWarning(t, "dump-refused") })
	s.all(ctx, "chmod 755 /var/log; userdel anna")
	return "forsctl, forsd and doctor say who lacks what; what they advise gives it"
}

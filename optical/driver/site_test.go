package driver

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const site = `version: 1
unit: 250ms
switches:
  - name: ocs-1
    driver: polatis
    url: https://192.0.2.1:8008
    username: admin
    password_file: /etc/forsd/ocs-1.password
    ingress: 1-3
    egress: 9,11, 10
`

func TestParseSite(t *testing.T) {
	s, err := ParseSite([]byte(site), "switches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.UnitDuration() != 250*time.Millisecond {
		t.Errorf("unit %v", s.UnitDuration())
	}
	want := Line{Name: "ocs-1", Ingress: []int{1, 2, 3}, Egress: []int{9, 11, 10}}
	if d := cmp.Diff(want, s.Switches[0].Line(nil)); d != "" {
		t.Errorf("line (-want +got):\n%s", d)
	}
}

// TestParseSiteRefuses corrupts the file in every way that is checked.
func TestParseSiteRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"version: 1", "version: 2", "switches.yaml: version is 2"},
		{"version: 1\n", "", "version is 0"},
		{"unit: 250ms", "unit: 250", `unit is "250"`},
		{"unit: 250ms", "unit: -1s", `unit is "-1s"`},
		{"name: ocs-1", "name: ''", "name of its own"},
		{"username:", "user:", `switches.yaml:7: unknown field "user"`},
		{"https://192.0.2.1:8008", "192.0.2.1", "switch ocs-1: url is"},
		{"driver: polatis", "driver: calient", `switch ocs-1: driver is "calient": want polatis or polatis-netconf`},
		{"driver: polatis", "driver: polatis-netconf", "want one such as ssh://192.0.2.1:830"},
		{"driver: polatis\n    url: https", "driver: polatis-netconf\n    url: ssh", "known_hosts is missing"},
		{"driver: polatis\n    url: https", "driver: polatis-netconf\n    ca_file: x\n    url: ssh", "ca_file is for driver polatis"},
		{"username", "key_file: x\n    username", "key_file and known_hosts are for driver polatis-netconf"},
		{"1-3", "3-1", `ingress: "3-1" is not a port`},
		{"1-3", "0", `"0" is not a port`},
		{"9,11, 10", "9,,10", `egress: "" is not a port`},
		{"1-3", "1-65535,1-65535", "more than 65535 ports"},
		{"switches:", "switches: []\nmore:", "unknown field"},
		{"unit:", "unit", "switches.yaml:"},
		{"11, 10\n", "11, 10\n  - {name: ocs-2, driver: polatis, url: 'https://192.0.2.1:8008/', ingress: 2-4, egress: 12-14}\n", "switches ocs-1 and ocs-2 both have ingress port 2 of https://192.0.2.1:8008"},
	} {
		bad := strings.Replace(site, c.from, c.to, 1)
		if _, err := ParseSite([]byte(bad), "switches.yaml"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want %q", c.to, c.from, err, c.want)
		}
	}
	if _, err := ParseSite([]byte("version: 1\nunit: 1s\n"), "x"); err == nil || !strings.Contains(err.Error(), "switches is empty") {
		t.Errorf("no switches: %v", err)
	}
	if _, err := ReadSite("none.yaml"); err == nil {
		t.Error("no file: no error")
	}
}

// FuzzParseSite parses arbitrary files: each accepted site is complete for Run.
func FuzzParseSite(f *testing.F) {
	f.Add([]byte(site))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSite(data, "fuzz")
		if err != nil {
			return
		}
		if s.UnitDuration() <= 0 {
			t.Errorf("unit %v", s.UnitDuration())
		}
		for _, e := range s.Switches {
			if l := e.Line(nil); len(l.Ingress) == 0 || len(l.Egress) == 0 {
				t.Errorf("switch %s has no ports", e.Name)
			}
		}
	})
}

package config

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/planner"
)

var byText = cmp.Comparer(func(a, b *regexp.Regexp) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.String() == b.String()
})

func TestVersionAloneIsDefault(t *testing.T) {
	for _, text := range []string{"version: 1", "version: 1\nopensm:\n", "version: 1\napi: {}\n", "---\n# all defaults\nversion: 1\n...\n"} {
		got, err := Parse([]byte(text), "x.yaml")
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if d := cmp.Diff(Default(), got, byText); d != "" {
			t.Errorf("%q (-default +got):\n%s", text, d)
		}
	}
}

func TestDefaultIsValid(t *testing.T) {
	if err := newError("default", Default().problems()); err != nil {
		t.Error(err)
	}
}

const everything = `
version: 1
fabric: plane-3
mode: watch
state_dir: /srv/forsd
keep_epochs: 7
opensm:
  dump_dir: /d
  cache_dir: /c
  conf: /o.conf
  log: /o.log
  lfts_file: /l.dump
  root_guid_file: /r.root
  table_comments: true
  pid_file: /o.pid
  unit: opensm.service
  umad: mlx5_0:1
  dump_command:
    - ibsim-run
    - dump_fts
    - -n
  sweep_timeout: 1m30s
  readback_timeout: 500ms
  lmc: 0
  plugin: {enabled: on, socket: /p}
  traps: off
  discover_command: [ibnetdiscover, -C, mlx5_0]
  discover_every: 1m
  install_command: [push]
api: {socket: /s, socket_mode: 0600, listen: "[::1]:7480", names: [fabric.example.org], read_over_tcp: false, tls: {listen: ":7481", certificate: /t.pem, key: /t.key, client_ca: /ca.pem, revoked: /crl.pem}, administrators: [anna, "cn:root"], operators: ["@ops"], viewers: ["ou:hosts"]}
peer: {timeout: 3s}
planning: {engine: exact, lids: 2, exclude: '^(login|adm)\d+', roles: {aggregation: an, gateway: '^gw', storage: st, management: mgmt}, exchange: rails, other_fabrics: liquid, max_unreachable: 0.25, keep_price: 0.5}
jobs: {base_lids: never, own_lanes: true}
drains: {grace: 7s}
damping: {hold_down: 1s, max_hold_down: 1s, flaps: 1, window: 3s}
cables:
  {mode: off, every: 2s, max_cost: 1, per_leaf: 3, in_all: 4, slow: 0.3, isolate_slow: true, test: 5s, probation: 6s,
   short: 9s, short_ber: 1e-10, long: 11s, long_ber: 1e-11, flaps: 18}
safety: {max_loss: 1, confirm: 4s}
retry: {first: 5s, max: 6s}
history: {max_age: 1h, max_mb: 5}
webhook: {url: /etc/u, secret_file: /etc/k, template: /etc/t, severity: critical}
log: {level: debug, format: console}
`

func TestEveryKeyIsRead(t *testing.T) {
	got, err := Parse([]byte(everything), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Fabric: "plane-3", Mode: ModeWatch, Version: 1, StateDir: "/srv/forsd", KeepEpochs: 7,
		OpenSM: OpenSM{
			DumpDir: "/d", CacheDir: "/c", Conf: "/o.conf", Log: "/o.log", LFTsFile: "/l.dump", RootFile: "/r.root",
			TableComments: true, PIDFile: "/o.pid", Unit: "opensm.service",
			Umad:         "mlx5_0:1",
			DumpCommand:  []string{"ibsim-run", "dump_fts", "-n"},
			SweepTimeout: 90 * time.Second, ReadbackTimeout: 500 * time.Millisecond, LMC: 0,
			Plugin: Plugin{Enabled: EnabledOn, Socket: "/p"}, Traps: TrapsOff,
			DiscoverCommand: []string{"ibnetdiscover", "-C", "mlx5_0"}, DiscoverEvery: time.Minute, InstallCommand: []string{"push"},
		},
		API: API{Socket: "/s", SocketMode: 0o600, Listen: "[::1]:7480", Names: []string{"fabric.example.org"},
			TLS:            TLS{":7481", access.Files{Certificate: "/t.pem", Key: "/t.key", ClientCA: "/ca.pem", Revoked: "/crl.pem"}},
			Administrators: []string{"anna", "cn:root"}, Operators: []string{"@ops"}, Viewers: []string{"ou:hosts"}},
		Peer: Peer{Timeout: 3 * time.Second},
		Planning: Planning{Engine: EngineExact, LIDs: 2, Exclude: regexp.MustCompile(`^(login|adm)\d+`),
			Roles:    Roles{regexp.MustCompile("an"), regexp.MustCompile("^gw"), regexp.MustCompile("st"), regexp.MustCompile("mgmt")},
			Exchange: Exchange{Groups: planner.Groups{Rails: true}}, OtherFabrics: OtherLiquid, MaxUnreachable: 0.25, KeepPrice: 0.5},
		Jobs:    Jobs{BaseLIDs: planner.RouteNever, OwnLanes: true},
		Drains:  Drains{Grace: 7 * time.Second},
		Damping: Damping{HoldDown: time.Second, MaxHoldDown: time.Second, Flaps: 1, Window: 3 * time.Second},
		Cables: Cables{Every: 2 * time.Second, MaxCost: 1, Settings: cablehealth.Settings{Mode: cablehealth.Off, PerLeaf: 3, InAll: 4, Slow: 0.3, IsolateSlow: true, Test: 5 * time.Second, Probation: 6 * time.Second,
			Short: 9 * time.Second, ShortBER: 1e-10, Long: 11 * time.Second, LongBER: 1e-11, Flaps: 18}},
		Safety:  Safety{MaxLoss: 1, Confirm: 4 * time.Second},
		Retry:   Retry{First: 5 * time.Second, Max: 6 * time.Second},
		History: History{MaxAge: time.Hour, MaxMB: 5},
		Webhook: Webhook{URL: "/etc/u", SecretFile: "/etc/k", Template: "/etc/t", Severity: "critical"},
		Log:     Log{Level: LevelDebug, Format: FormatConsole},
	}
	if d := cmp.Diff(want, got, byText); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	// A peer excludes an OpenSM on another host, so it has its own test.
	if _, err := Parse([]byte("version: 1\nmode: watch\npeer: {address: /p2}\n"), "x.yaml"); err == nil || !strings.Contains(err.Error(), "x.yaml:2: mode: watch cannot be combined with peer.address") {
		t.Errorf("mode with a peer: %v", err)
	}
	if got, err = Parse([]byte("version: 1\npeer: {address: /p2}\n"), "x.yaml"); err != nil || got.Peer.Address != "/p2" {
		t.Errorf("peer.address: %+v, %v", got, err)
	}
}

// TestEverythingDiffersFromDefault checks that every key in everything differs from its
// default. With two equal values, a mix-up of two keys could remain unnoticed.
func TestEverythingDiffersFromDefault(t *testing.T) {
	got, err := Parse([]byte(everything), "x.yaml")
	if err != nil {
		t.Fatal(err)
	}
	same := map[string]bool{"version": true, "peer.address": true} // one has only one value, one excludes other keys
	var walk func(a, b reflect.Value, prefix string)
	walk = func(a, b reflect.Value, prefix string) {
		for i := range a.NumField() {
			key := prefix + a.Type().Field(i).Tag.Get("yaml")
			if isGroup(a.Field(i).Type()) {
				walk(a.Field(i), b.Field(i), key+".")
			} else if cmp.Equal(a.Field(i).Interface(), b.Field(i).Interface(), byText) != same[key] {
				t.Errorf("%s: %v and %v", key, a.Field(i), b.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(got).Elem(), reflect.ValueOf(Default()).Elem(), "")
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "c.yaml: version: is missing: write version: 1"},
		{"comment only", "# nothing\n", "c.yaml: version: is missing: write version: 1"},
		{"other version", "version: 2", "c.yaml:1: version: 2 is not known: this forsd reads version 1"},
		{"version as word", "version: one", `c.yaml:1: version: "one" is not a whole number`},
		{"unknown key", "version: 1\n\nstatedir: /x\n", "c.yaml:3: statedir: is unknown: the keys here are version, fabric, mode, state_dir, keep_epochs, opensm, api, peer, planning, jobs, drains, damping, cables, safety, retry, history, webhook, log"},
		{"unknown key in group", "version: 1\nretry:\n  first: 2s\n  last: 3s\n", "c.yaml:4: retry.last: is unknown: the keys here are first, max"},
		{"duplicate", "version: 1\nversion: 1\n", `c.yaml:2: is not YAML: mapping key "version" already defined at [1:1]`},
		{"syntax", "version: 1\nlog: {level: info\n", "c.yaml:2: is not YAML: could not find flow mapping end token '}'"},
		{"cables", "version: 1\ncables: {mode: maybe, every: 0s, short: 2m, long: 1m, short_ber: 1, per_leaf: -1, slow: -1}\n", "c.yaml:2: cables.every: 0s is not a positive duration\nc.yaml:2: cables.long: 1m0s is below cables.short, 2m0s\n" +
			"c.yaml:2: cables.mode: \"maybe\" is not one of off, report, isolate\nc.yaml:2: cables.per_leaf: -1 is less than none: want 0 or more\n" +
			"c.yaml:2: cables.short_ber: 1 is not a rate: want 0 to less than 1, such as 1e-14\nc.yaml:2: cables.slow: -1 is no part of a time: want 0 or more, such as 0.1"},
		{"cables isolated by a watcher", "version: 1\nmode: watch\ncables: {mode: isolate}\n", "c.yaml:3: cables.mode: is isolate, and a forsd that only watches (mode: watch) isolates nothing: want report or off"},
		{"list", "- version: 1\n", "c.yaml: version: is missing: write version: 1\nc.yaml:1: is not a group of keys"},
		{"two documents", "version: 1\n---\nversion: 1\n", "c.yaml:3: begins a second document: a configuration is one"},
		{"value for group", "version: 1\nlog: info\n", "c.yaml:2: log: is not a group of keys"},
		{"group for value", "version: 1\nstate_dir: {a: b}\n", "c.yaml:2: state_dir: is a list or a group where one value is wanted"},
		{"null", "version: 1\nstate_dir:\n", "c.yaml:2: state_dir: has no value: leave the line out for the default"},
		{"anchor", "version: 1\nstate_dir: &a /x\n", "c.yaml:2: state_dir: has an anchor, an alias or a tag: write the value itself"},
		{"odd key", "version: 1\n7: 8\n", "c.yaml:2: has the key 7, which is not a plain word"},
		{"merge key", "version: 1\nlog: {level: info}\nretry:\n  <<: {}\n", "c.yaml:4: retry: has the key <<, which is not a plain word"},
		{"bool", "version: 1\nopensm: {table_comments: yes}\n", `c.yaml:2: opensm.table_comments: "yes" is neither true nor false`},
		{"duration", "version: 1\nretry: {first: 5}\n", `c.yaml:2: retry.first: "5" is not a duration such as 10s or 2m`},
		{"mode", "version: 1\napi: {socket_mode: 0689}\n", `c.yaml:2: api.socket_mode: "0689" is not a file mode such as 0660`},
		{"mode shuts out", "version: 1\napi: {socket_mode: 0o060}\n", "c.yaml:2: api.socket_mode: 060 shuts out the owner or has bits beyond 0777: want such as 0660"},
		{"mode too wide", "version: 1\napi: {socket_mode: '04777'}\n", "c.yaml:2: api.socket_mode: 04777 shuts out the owner or has bits beyond 0777: want such as 0660"},
		{"regexp", "version: 1\nplanning: {exclude: '('}\n", "c.yaml:2: planning.exclude: is not a regular expression: error parsing regexp: missing closing ): `(`"},
		{"lids", "version: 1\nplanning: {lids: 0}\n", `c.yaml:2: planning.lids: "0" is not one of auto, lanes and the numbers 1 to 128`},
		{"engine", "version: 1\nplanning: {engine: fast}\n", `c.yaml:2: planning.engine: "fast" is not one of auto, algorithm, exact, ilp`},
		{"lmc", "version: 1\nopensm: {lmc: 8}\n", `c.yaml:2: opensm.lmc: "8" is neither auto nor a number from 0 to 7`},
		{"umad", "version: 1\nopensm: {umad: 'mlx5_0:0'}\n", `c.yaml:2: opensm.umad: "mlx5_0:0" is neither auto, off, nor a port such as mlx5_0 or mlx5_0:1`},
		{"a key of before", "version: 1\nopensm: {umad_window: 8}\ncables:\n  waits: 3\n", "c.yaml:2: opensm.umad_window: is gone, and forsd works by what was its default: take the line out\n" +
			"c.yaml:4: cables.waits: is gone, and forsd works by what was its default: take the line out"},
		{"command as word", "version: 1\nopensm: {dump_command: dump_fts}\n", "c.yaml:2: opensm.dump_command: is not a list such as [dump_fts, -n]"},
		{"empty command", "version: 1\nopensm: {dump_command: []}\n", "c.yaml:2: opensm.dump_command: names no program: want a list such as [dump_fts, -n]"},
		{"command of groups", "version: 1\nopensm: {dump_command: [a, {b: c}]}\n", "c.yaml:2: opensm.dump_command: item 2 is a list or a group where one value is wanted"},
		{"empty discovery", "version: 1\nopensm: {discover_command: ['']}\n", "c.yaml:2: opensm.discover_command: names no program: want a list such as [ibnetdiscover], or none"},
		{"install here", "version: 1\nopensm: {install_command: [push]}\n", "c.yaml:2: opensm.install_command: is for an OpenSM on another host: set opensm.discover_command, too"},
		{"plugin", "version: 1\nopensm:\n  plugin: {enabled: maybe, sockets: /s}\n  traps: on\n", "c.yaml:3: opensm.plugin.enabled: \"maybe\" is not one of auto, on, off\nc.yaml:3: opensm.plugin.sockets: is unknown: the keys here are enabled, socket\nc.yaml:4: opensm.traps: \"on\" is not one of auto, off"},
		{"relative", "version: 1\nopensm:\n  dump_dir: var/log\n", `c.yaml:3: opensm.dump_dir: "var/log" is not the absolute path of a directory`},
		{"file as directory", "version: 1\nopensm:\n  pid_file: /run/\n", `c.yaml:3: opensm.pid_file: "/run/" is not the absolute path of a file`},
		{"unit", "version: 1\nopensm: {unit: 'opensm@['}\n", `c.yaml:2: opensm.unit: "opensm@[" is not a pattern of unit names: syntax error in pattern`},
		{"listen", "version: 1\napi: {listen: localhost}\n", `c.yaml:2: api.listen: "localhost" is not an address as host:port`},
		{"listen port", "version: 1\napi: {listen: 'localhost:http'}\n", `c.yaml:2: api.listen: "localhost:http" has no port number from 0 to 65535`},
		{"peer", "version: 1\npeer: {address: 'other:7480'}\n", `c.yaml:2: peer.address: "other:7480" is not the address of a forsd: want http://host:port, or the path of its socket`},
		{"peer without plugin", "version: 1\nopensm: {plugin: {enabled: off}}\npeer: {address: 'http://other:7480'}\n", "c.yaml:3: peer.address: takes OpenSM's plugin, which alone tells who is the master: opensm.plugin.enabled is off"},
		{"peer from afar", "version: 1\nopensm: {discover_command: [ibnetdiscover]}\npeer: {address: 'http://other:7480'}\n", "c.yaml:3: peer.address: takes an OpenSM on this host, whose plugin tells who is the master: opensm.discover_command is for one on another"},
		{"peer is oneself", "version: 1\napi: {socket: /run/s}\npeer: {address: /run/s}\n", "c.yaml:3: peer.address: is api.socket, this forsd's own: want that of the other one"},
		{"one socket for both", "version: 1\napi: {socket: /run/s}\nopensm: {plugin: {socket: /run/s}}\n", "c.yaml:3: opensm.plugin.socket: is api.socket, too: each needs a path of its own"},
		{"share", "version: 1\nsafety: {max_loss: nan}\n", "c.yaml:2: safety.max_loss: NaN is not a share of the servers: want more than 0 and at most 1"},
		{"zero", "version: 1\nsafety: {confirm: 0s}\n", "c.yaml:2: safety.confirm: 0s is not a positive duration"},
		{"no key", "version: 1\napi:\n  tls: {certificate: /x}\n", "c.yaml:3: api.tls.certificate: takes api.tls.key, and the other way round"},
		{"no certificate", "version: 1\napi:\n  tls: {listen: \":1\"}\n", "c.yaml: api.tls.certificate: is missing: TLS takes api.tls.certificate and api.tls.key"},
		{"no authority", "version: 1\napi:\n  viewers: [\"cn:x\"]\n", "c.yaml:3: api.viewers: \"cn:x\" is of certificates: set api.tls.client_ca, by which they are verified"},
		{"nobody", "version: 1\napi:\n  viewers: [\"@\"]\n", "c.yaml:3: api.viewers: \"@\" names nobody: want a user, @group, cn:NAME or ou:UNIT"},
		{"no history", "version: 1\nhistory:\n  max_mb: 0\n", "c.yaml:3: history.max_mb: 0 is not a number of megabytes from 1 to 1048576"},
		{"webhook without host", "version: 1\nwebhook: {url: 'https:///secret'}\n", "c.yaml:2: webhook.url: is not an address: want https://host/path, or the absolute path of a file that holds it"},
		{"webhook's form", "version: 1\nwebhook: {template: xml}\n", `c.yaml:2: webhook.template: "xml" is neither discord, json, slack, teams, nor the absolute path of a file`},
		{"fabric", "version: 1\nfabric: plane 3\n", `c.yaml:2: fabric: "plane 3" is not a name: want up to 63 letters, digits, dots, hyphens and underscores`},
		{"webhook's severity", "version: 1\nwebhook: {severity: bad}\n", `c.yaml:2: webhook.severity: "bad" is not one of info, degraded, critical`},
		{"order", "version: 1\nretry:\n  max: 500ms\n", "c.yaml:3: retry.max: 500ms is below retry.first, 1s"},
		{"few epochs", "version: 1\nkeep_epochs: 1\n", "c.yaml:2: keep_epochs: 1 is too few: a rollback needs at least 2"},
		{"no flaps", "version: 1\ndamping: {flaps: 0}\n", "c.yaml:2: damping.flaps: 0 is too few: want 1 or more"},
		{"all at once", "keep_epochs: x\nlog:\n  lvl: info\n  format: xml\nsafety:\n  max_loss: 2\n",
			"c.yaml: version: is missing: write version: 1\n" +
				"c.yaml:1: keep_epochs: \"x\" is not a whole number\n" +
				"c.yaml:3: log.lvl: is unknown: the keys here are level, format\n" +
				"c.yaml:4: log.format: \"xml\" is not one of auto, json, console, journal\n" +
				"c.yaml:6: safety.max_loss: 2 is not a share of the servers: want more than 0 and at most 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse([]byte(tt.text), "c.yaml")
			if err == nil || c != nil {
				t.Fatalf("accepted: %+v", c)
			}
			if d := cmp.Diff(tt.want, err.Error()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "forsd.yaml")
	if _, err := Load(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("version: 1\nx: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+":2: ") {
		t.Errorf("error without path and line: %v", err)
	}
	if err := os.WriteFile(path, []byte("version: 1\n"+strings.Repeat("#\n", maxSize/2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("oversized file: %v", err)
	}
}

func TestLongSocketIsRefused(t *testing.T) {
	c := Default()
	c.API.Socket = "/" + strings.Repeat("s", 106)
	if err := newError("", c.problems()); err != nil {
		t.Errorf("107 bytes: %v", err)
	}
	c.API.Socket += "s"
	if len(c.problems()) == 0 {
		t.Error("a socket path of 108 bytes, which the kernel refuses, is accepted")
	}
	for _, share := range []float64{math.Inf(1), math.NaN(), -0.1} {
		lost, cut := Default(), Default()
		lost.Safety.MaxLoss, cut.Planning.MaxUnreachable = share, share
		if len(lost.problems()) == 0 || len(cut.problems()) == 0 {
			t.Errorf("a share of %v is accepted", share)
		}
	}
}

// FuzzParse checks that a configuration is either accepted and valid, or refused with the name
// of the file, and never both or with a crash.
func FuzzParse(f *testing.F) {
	for _, s := range []string{everything, "version: 1", "version: 1\nlog: {level: info", "a: &b\n  c: *b\n", "<<: [", "? a\n: b", "version: 1\nopensm: {dump_command: [\"\\0\"]}", "{{", "- -", "version: !!str 1", "\xff\xfe", "k: |\n x", "%YAML 1.2\n---\nversion: 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "c.yaml")
		if err != nil {
			if c != nil || !strings.HasPrefix(err.Error(), "c.yaml:") {
				t.Fatalf("config %v with error %q", c, err)
			}
			return
		}
		if c.Version != Version {
			t.Fatalf("version %d accepted", c.Version)
		}
		if err := newError("", c.problems()); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
	})
}

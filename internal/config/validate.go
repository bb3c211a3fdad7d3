package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forsd/forsd/internal/access"
	"github.com/forsd/forsd/internal/cablehealth"
	"github.com/forsd/forsd/internal/webhook"
)

// maxSocketPath is the longest path of a Unix socket: sun_path of sockaddr_un
// holds 108 bytes, the last of them zero.
const maxSocketPath = 107

// maxHistoryMB is the maximum size of the history.
const maxHistoryMB = 1 << 20

// fabricName is a name that is a label in metrics and part of titles.
var fabricName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// problems checks the values: ranges, formats, and combinations. It does not check that files
// and directories exist.
func (c *Config) problems() []Problem {
	var v judge
	v.values("", reflect.ValueOf(c).Elem())
	if c.Version != Version {
		v.add("version", "%d is not known: this forsd reads version %d", c.Version, Version)
	}
	if c.Fabric != "" && !fabricName.MatchString(c.Fabric) {
		v.add("fabric", "%q is not a name: want up to 63 letters, digits, dots, hyphens and underscores", c.Fabric)
	}
	if c.KeepEpochs < 2 {
		v.add("keep_epochs", "%d is too few: a rollback needs at least 2", c.KeepEpochs)
	}
	v.opensm(&c.OpenSM)
	v.api(&c.API)
	if c.OpenSM.Plugin.Enabled != EnabledOff && c.OpenSM.Plugin.Socket == c.API.Socket {
		v.add("opensm.plugin.socket", "is api.socket, too: each needs a path of its own")
	}
	v.peer(c)
	if c.Watches() && c.Peer.Address != "" {
		v.add("mode", "watch cannot be combined with peer.address")
	}
	if c.Watches() && c.Cables.Mode == cablehealth.Isolate {
		v.add("cables.mode", "is isolate, and a forsd that only watches (mode: watch) isolates nothing: want report or off")
	}
	v.growing("damping.hold_down", c.Damping.HoldDown, "damping.max_hold_down", c.Damping.MaxHoldDown)
	if c.Damping.Flaps < 1 {
		v.add("damping.flaps", "%d is too few: want 1 or more", c.Damping.Flaps)
	}
	v.growing("cables.short", c.Cables.Short, "cables.long", c.Cables.Long)
	// These forms also refuse NaN.
	if !(c.Cables.Slow >= 0 && c.Cables.Slow < 100) {
		v.add("cables.slow", "%v is no part of a time: want 0 or more, such as 0.1", c.Cables.Slow)
	}
	if !(c.Safety.MaxLoss > 0 && c.Safety.MaxLoss <= 1) {
		v.add("safety.max_loss", "%v is not a share of the servers: want more than 0 and at most 1", c.Safety.MaxLoss)
	}
	if !(c.Planning.KeepPrice >= 0 && c.Planning.KeepPrice <= 1) {
		v.add("planning.keep_price", "%v is not a share of the phases: want 0 to 1", c.Planning.KeepPrice)
	}
	if !(c.Planning.MaxUnreachable >= 0 && c.Planning.MaxUnreachable <= 1) {
		v.add("planning.max_unreachable", "%v is not a share of the pairs: want 0 to 1", c.Planning.MaxUnreachable)
	}
	v.growing("retry.first", c.Retry.First, "retry.max", c.Retry.Max)
	if c.History.MaxMB < 1 || c.History.MaxMB > maxHistoryMB {
		v.add("history.max_mb", "%d is not a number of megabytes from 1 to %d", c.History.MaxMB, maxHistoryMB)
	}
	v.webhook(&c.Webhook)
	return v.problems
}

// judge collects problems.
type judge struct{ problems []Problem }

func (v *judge) add(key, format string, args ...any) {
	v.problems = append(v.problems, Problem{Key: key, Text: fmt.Sprintf(format, args...)})
}

// values checks each value of a group by its type and its tag.
func (v *judge) values(prefix string, group reflect.Value) {
	for _, f := range fields(group.Type()) {
		if value, key := group.FieldByIndex(f.Index), prefix+f.Tag.Get("yaml"); isGroup(f.Type) {
			v.values(key+".", value)
		} else {
			v.value(key, f.Tag.Get("is"), value.Interface())
		}
	}
}

// value checks a value by what it must be. Every duration must be positive.
func (v *judge) value(key, is string, value any) {
	switch x := value.(type) {
	case time.Duration:
		if x <= 0 {
			v.add(key, "%v is not a positive duration", x)
		}
	case float64:
		if is == "rate" && !(x >= 0 && x < 1) { // this form also refuses NaN
			v.add(key, "%v is not a rate: want 0 to less than 1, such as 1e-14", x)
		}
	case int:
		if is == "count" && x < 0 {
			v.add(key, "%d is less than none: want 0 or more", x)
		}
	case string:
		v.text(key, is, x)
	}
}

// text checks a path or an address.
func (v *judge) text(key, is, p string) {
	whole := filepath.IsAbs(p) && !strings.Contains(p, "\x00")
	switch {
	case is == "dir" && !whole:
		v.add(key, "%q is not the absolute path of a directory", p)
	case is == "address" && p != "":
		if _, port, err := net.SplitHostPort(p); err != nil {
			v.add(key, "%q is not an address as host:port", p)
		} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			v.add(key, "%q has no port number from 0 to 65535", p)
		}
	case is == "file" || is == "socket" || is == "file or none" && p != "":
		if !whole || strings.HasSuffix(p, "/") {
			v.add(key, "%q is not the absolute path of a file", p)
		}
		if is == "socket" && len(p) > maxSocketPath {
			v.add(key, "is %d bytes long: the path of a socket has at most %d", len(p), maxSocketPath)
		}
	}
}

func (v *judge) opensm(o *OpenSM) {
	if _, err := path.Match(o.Unit, ""); err != nil {
		v.add("opensm.unit", "%q is not a pattern of unit names: %v", o.Unit, err)
	}
	if len(o.DumpCommand) == 0 || o.DumpCommand[0] == "" {
		v.add("opensm.dump_command", "names no program: want a list such as [dump_fts, -n]")
	}
	for _, c := range []struct {
		key     string
		command []string
	}{{"opensm.discover_command", o.DiscoverCommand}, {"opensm.install_command", o.InstallCommand}} {
		if len(c.command) > 0 && c.command[0] == "" {
			v.add(c.key, "names no program: want a list such as [ibnetdiscover], or none")
		}
	}
	if len(o.InstallCommand) > 0 && len(o.DiscoverCommand) == 0 {
		v.add("opensm.install_command", "is for an OpenSM on another host: set opensm.discover_command, too")
	}
}

func (v *judge) api(a *API) {
	if a.SocketMode&^0o777 != 0 || a.SocketMode&0o600 != 0o600 {
		v.add("api.socket_mode", "%#o shuts out the owner or has bits beyond 0777: want such as 0660", uint32(a.SocketMode))
	}
	v.tls(&a.TLS)
	for _, x := range []struct {
		key  string
		list []string
	}{{"api.administrators", a.Administrators}, {"api.operators", a.Operators}, {"api.viewers", a.Viewers}} {
		for _, entry := range x.list {
			if err := access.Check(entry); err != nil {
				v.add(x.key, "%v", err)
			} else if strings.HasPrefix(entry, "cn:") || strings.HasPrefix(entry, "ou:") {
				if a.TLS.ClientCA == "" {
					v.add(x.key, "%q is of certificates: set api.tls.client_ca, by which they are verified", entry)
				}
			}
		}
	}
}

func (v *judge) tls(t *TLS) {
	switch {
	case (t.Certificate == "") != (t.Key == ""):
		v.add("api.tls.certificate", "takes api.tls.key, and the other way round")
	case t.Certificate == "" && (t.Listen != "" || t.ClientCA != ""):
		v.add("api.tls.certificate", "is missing: TLS takes api.tls.certificate and api.tls.key")
	case t.Revoked != "" && t.ClientCA == "":
		v.add("api.tls.revoked", "takes api.tls.client_ca, which has signed it")
	}
}

func (v *judge) webhook(w *Webhook) {
	if u, err := url.Parse(w.URL); w.URL != "" && !filepath.IsAbs(w.URL) && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		v.add("webhook.url", "is not an address: want https://host/path, or the absolute path of a file that holds it") // do not print it: it may be a secret
	}
	if _, known := webhook.Templates[w.Template]; !known && !filepath.IsAbs(w.Template) {
		v.add("webhook.template", "%q is neither %s, nor the absolute path of a file", w.Template, strings.Join(slices.Sorted(maps.Keys(webhook.Templates)), ", "))
	}
}

func (v *judge) peer(c *Config) {
	if c.Peer.Address == "" {
		return
	}
	if u, err := url.Parse(c.Peer.Address); !filepath.IsAbs(c.Peer.Address) && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		v.add("peer.address", "%q is not the address of a forsd: want http://host:port, or the path of its socket", c.Peer.Address)
	}
	if c.Peer.Address == c.API.Socket {
		v.add("peer.address", "is api.socket, this forsd's own: want that of the other one")
	}
	if len(c.OpenSM.DiscoverCommand) > 0 {
		v.add("peer.address", "takes an OpenSM on this host, whose plugin tells who is the master: opensm.discover_command is for one on another")
	}
	if c.OpenSM.Plugin.Enabled == EnabledOff {
		v.add("peer.address", "takes OpenSM's plugin, which alone tells who is the master: opensm.plugin.enabled is off")
	}
}

// growing checks a delay that grows from first to limit.
func (v *judge) growing(firstKey string, first time.Duration, limitKey string, limit time.Duration) {
	if first > 0 && limit > 0 && limit < first {
		v.add(limitKey, "%v is below %s, %v", limit, firstKey, first)
	}
}

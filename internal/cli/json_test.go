package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/ib"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/lft"
	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// Command lines with files and a fake daemon, in this order. Those of changing change what a
// second run answers.
var (
	answering = []string{
		"version", "status", "status --all", "history", "epochs", "drains", "job list", "job show j", "token list",
		"cables", "cables Leaf001/6", "whatif --fail Spine003", "whatif --done 8 --fail Spine003", "report",
		"explain Hca0000 Hca0007", "explain Hca0000 Hca0007 --topology t --lfts p/lfts.dump --phases p/phases.bin",
		"plan t", "plan t --from p --fail Spine003", "plan three", "verify t --lfts p/lfts.dump --phases p/phases.bin", "verify t --lfts p/lfts.dump --phases q/phases.bin",
		"simulate t --lfts p/lfts.dump --schedule linear-shift", "simulate t --lfts p/lfts.dump --schedule all-at-once", "simulate t --lfts p/lfts.dump --schedule p/phases.bin --schedule linear-shift",
		"routes t --lfts p/lfts.dump", "acceptance t --lfts p/lfts.dump", "acceptance u --intended t --failures 2 --keep pairs --shard 2/3", "topology", "topology t", "topology three",
		"diff t u", "diff p/lfts.dump q/lfts.dump", "diff p q", "diff 41 42", "drain Spine003 --dry-run", "baseline accept --dry-run", "reload --dry-run",
		"job ranks --topology t --lfts p/lfts.dump", "measure t --lfts p/lfts.dump --log log", "setup --topology t --conf conf --config files.yaml --dry-run", "restore kept.tar.gz --config forsd.yaml --dry-run",
	}
	changing = []string{
		"doctor --config files.yaml", "watch --after FIRST --count 4", "phases --out table", "job create --name k --nodes Hca0000,Hca0001 --id", "job renew k --lease 1h", "job table k --out table", "job rm k",
		"drain Spine003 --at 02:00 --for 2h --yes", "undrain all", "cables release Leaf001/6", "baseline show", "baseline accept --yes", "reroute", "rollback 41", "reload --dry-run",
		"token create ci --role viewer", "token revoke ci", "support --out support.tar.gz --config forsd.yaml", "backup --out again.tar.gz --config forsd.yaml",
	}
	// constants are numbers of the text that are the program's or a flag's.
	constants = map[string][]string{
		"acceptance t --lfts p/lfts.dump": {"10"}, "acceptance u --intended t --failures 2 --keep pairs --shard 2/3": {"10"}, "diff p/lfts.dump q/lfts.dump": {fmt.Sprint(lft.Block)},
		"setup --topology t --conf conf --config files.yaml --dry-run": {fmt.Sprint(ib.MaxUnicastLID)},
	}
	// silent do not answer: they say which command of theirs to take, talk to Slurm, or become
	// another program.
	silent = []string{"rehearse", "baseline", "job", "token", "slurm", "slurm prolog", "slurm epilog", "slurm task-prolog"}
)

// TestJSON runs every command with --json and checks the form of the answers.
func TestJSON(t *testing.T) {
	first := withFiles(t)
	asked := map[string]bool{}
	for _, line := range slices.Concat(answering, changing) {
		args := strings.Fields(strings.Replace(line, "FIRST", first, 1))
		cmd, _, err := Command().Find(args)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "forsctl ")
		asked[name] = true
		var stdout, stderr bytes.Buffer
		if code := Run(append(args, "--json"), &stdout, &stderr); code == command.Unusable {
			t.Errorf("%s: %s", line, &stderr)
		}
		all, err := objects(stdout.Bytes())
		if err != nil || len(all) == 0 {
			t.Errorf("%s: %v in %.300q", line, err, &stdout)
		}
		for _, x := range all {
			if x[0].key != "schema" || x[0].value != "forsctl/"+strings.ReplaceAll(name, " ", "/") || x[1].key != "version" || x[1].value != json.Number("1") {
				t.Errorf("%s: it begins with %v", line, x[:2])
			}
			for _, wrong := range misnamed("", x) {
				t.Errorf("%s: %s", line, wrong)
			}
		}
		if n := bytes.Count(stdout.Bytes(), []byte("\n")); name == "watch" && n != len(all) {
			t.Errorf("%s: %d objects in %d lines", line, len(all), n)
		}
	}
	stream := &firstWrite{}
	ctx, cancel := context.WithCancel(t.Context())
	root := Command()
	stream.then = cancel
	root.SetOut(stream)
	root.SetArgs([]string{"cables", "--watch", "--json"})
	if err := root.ExecuteContext(ctx); err != nil || bytes.Count(stream.Bytes(), []byte("\n")) != 1 || !bytes.HasPrefix(stream.Bytes(), []byte(`{"schema":"forsctl/cables","version":1,`)) {
		t.Errorf("cables --watch: %v, %s", err, stream)
	}
	for _, cmd := range leaves(Command()) {
		name := strings.TrimPrefix(cmd.CommandPath(), "forsctl ")
		if asked[name] == slices.Contains(silent, name) {
			t.Errorf("forsctl %s is in one of the lists of this test, or in both", name)
		}
	}
	for _, name := range silent {
		var stdout bytes.Buffer
		code := Run(append(strings.Fields(name), "--json"), &stdout, io.Discard)
		if code != command.Unusable && !strings.Contains(stdout.String(), "Usage:") {
			t.Errorf("%s: exit code %d, %q", name, code, &stdout)
		}
	}
}

// TestJSONHasTheNumbers runs the commands with --json and without, and looks for every number
// of the text: as a number, within a string, or as the length of a list.
func TestJSONHasTheNumbers(t *testing.T) {
	withFiles(t)
	clock := regexp.MustCompile(`\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?|[\d.]+ m?s\b|0x[0-9a-f]+|[\d.]+ %|[A-Za-z]+[A-Za-z.-]*\d[\w.:-]*`)
	for _, line := range answering {
		var text, answer bytes.Buffer
		Run(strings.Fields(line), &text, io.Discard)
		Run(append(strings.Fields(line), "--json"), &answer, io.Discard)
		all, err := objects(answer.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{"0": true, "1": true}
		for _, n := range constants[line] {
			have[n] = true
		}
		for _, x := range all {
			collect(have, x)
		}
		for _, n := range number.FindAllString(clock.ReplaceAllString(text.String(), " "), -1) {
			if !have[n] {
				t.Errorf("%s: the text has %s, and the object does not:\n%s", line, n, &text)
			}
		}
	}
}

// withFiles makes a directory with files for the commands the current one, and serves a fake
// daemon there. It returns the ID before that of the daemon's first event.
func withFiles(t *testing.T) (first string) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TZ", "UTC")
	t.Setenv("FORSD_SERVER", filepath.Join(dir, "s"))
	program := os.Args[0]
	os.Args[0] = "/bin/true" // forsctl support runs itself
	t.Cleanup(func() { os.Args[0] = program })
	d, err := newFakeDaemon()
	if err != nil {
		t.Fatal(err)
	}
	server, err := d.listen("s")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	short := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	if _, err := short.Fail("Spine003"); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("version: 1\nstate_dir: %[1]s\nopensm: {conf: %[1]s/conf, cache_dir: %[1]s, dump_dir: %[1]s, plugin: {enabled: off}}\napi: {socket: %[1]s/none}\n", dir)
	for name, data := range map[string][]byte{
		"t": fabgen.Ibnetdiscover(d.result.Tree.Fabric), "u": fabgen.Ibnetdiscover(short), "three": fabgen.Ibnetdiscover(fabgen.GenerateTree(fabgen.KAry(4))),
		"forsd.yaml": []byte(config), "files.yaml": []byte(config), "conf": []byte("lmc 1\n"), "tokens.json": []byte("tokens"),
	} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := &kept{t, dir}
	k.run("plan", "t", "--out", "p")
	k.run("plan", "t", "--from", "p", "--fail", "Leaf001/6", "--out", "q")
	text, err := os.ReadFile("p/lfts.dump")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := lft.ReadBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	fabric := d.result.Tree.Fabric
	leaf := fabric.Find(fabgen.LeafGUID)
	writeLogs(t, "log", fabric, tables, topology.PortRef{Node: leaf, Port: fabric.Trunks(leaf)[0]})
	k.run("job", "create", "--name", "j", "--nodes", "Hca0000,Hca0005")
	k.run("backup", "--out", "kept.tar.gz", "--config", "forsd.yaml")
	return strconv.FormatInt(began.UnixNano(), 36) + "-0"
}

// firstWrite is a buffer that calls a function at a write.
type firstWrite struct {
	bytes.Buffer
	then func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.then()
	return w.Buffer.Write(p)
}

// leaves returns the commands below one.
func leaves(cmd *cobra.Command) (out []*cobra.Command) {
	for _, c := range cmd.Commands() {
		out = append(out, c)
		out = append(out, leaves(c)...)
	}
	return out
}

// A field is a member of an object in JSON; an object is their list in order.
type field struct {
	key   string
	value any // object, []any, string, json.Number, bool or nil
}

type object []field

// objects reads objects, one after another. No key may occur twice in one.
func objects(data []byte) (out []object, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for {
		v, err := value(d)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		x, is := v.(object)
		if err == nil && (!is || len(x) < 2) {
			err = fmt.Errorf("%.80v is not an object", v)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
}

func value(d *json.Decoder) (any, error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return nil, err
	case token == json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := value(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	case token == json.Delim('{'):
		x := object{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := value(d)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(x, func(f field) bool { return f.key == key }) {
				return nil, fmt.Errorf("%q occurs twice", key)
			}
			x = append(x, field{key.(string), v})
		}
		_, err = d.Token()
		return x, err
	}
	return token, nil
}

var (
	// number matches a number in a text.
	number = regexp.MustCompile(`\d+(?:\.\d+)?`)
	// otherwise matches names that times and durations had, or might get.
	otherwise = regexp.MustCompile(`(?:^|_)(?:ms|ns|us|millis|since|until|expires|created|started|ended|duration|timeout|second)$|^seconds$`)
)

// misnamed lists the values that are times or durations under another name, or not in the form
// that the name stands for.
func misnamed(key string, v any) (wrong []string) {
	switch v := v.(type) {
	case object:
		for _, f := range v {
			if otherwise.MatchString(f.key) {
				wrong = append(wrong, f.key+": want _at or _seconds")
			}
			wrong = append(wrong, misnamed(f.key, f.value)...)
		}
		return wrong
	case []any:
		for _, x := range v {
			wrong = append(wrong, misnamed(key, x)...)
		}
		return wrong
	}
	text, _ := v.(string)
	_, isNumber := v.(json.Number)
	_, lasts := time.ParseDuration(text)
	isTime := slices.ContainsFunc([]string{time.RFC3339, time.DateTime, time.DateOnly, time.RFC1123, time.RFC1123Z, time.ANSIC, time.UnixDate, "2006-01-02T15:04:05"},
		func(form string) bool { _, err := time.Parse(form, text); return err == nil })
	_, err := time.Parse(time.RFC3339, text)
	switch at := strings.HasSuffix(key, "_at"); {
	case isTime != at, at && err != nil:
		wrong = append(wrong, fmt.Sprintf("%s: %v", key, v))
	case strings.HasSuffix(key, "_seconds") && !isNumber, text != "0" && lasts == nil:
		wrong = append(wrong, fmt.Sprintf("%s: %v is not a number of seconds", key, v))
	}
	return wrong
}

// collect adds the numbers of a value: numbers with up to three digits after the point, those in
// strings, and the lengths of lists.
func collect(have map[string]bool, v any) {
	switch v := v.(type) {
	case object:
		for _, f := range v {
			collect(have, f.value)
			if n, is := f.value.(json.Number); is && f.key == "servers" {
				p, _ := n.Int64()
				have[strconv.FormatInt(p*(p-1), 10)] = true // its pairs
			}
		}
	case []any:
		have[strconv.Itoa(len(v))] = true
		for _, x := range v {
			collect(have, x)
		}
	case json.Number:
		f, _ := v.Float64()
		for digits := range 4 {
			have[strconv.FormatFloat(f, 'f', digits, 64)] = true
		}
		have[fmt.Sprintf("%.3g", f)] = true
	case string:
		for _, n := range number.FindAllString(v, -1) {
			have[n] = true
		}
	}
}

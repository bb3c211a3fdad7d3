package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/testbed/fabgen"
	"github.com/forsd/forsd/topology"
)

// write writes a file and returns its path.
func write(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flags returns a fabric that is described by flags, which must be well-formed.
func flags(t *testing.T, args ...string) *Fabric {
	t.Helper()
	f, cmd := &Fabric{}, &cobra.Command{}
	f.Register(cmd)
	f.TakesFile(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFabric reads fabrics that flags describe.
func TestFabric(t *testing.T) {
	whole := fabgen.Generate(fabgen.Spec{Spines: 4, Leaves: 4, LMC: 2})
	base, err := topology.NewBaseline(whole)
	if err != nil {
		t.Fatal(err)
	}
	two, three := write(t, fabgen.Ibnetdiscover(whole)), write(t, fabgen.Ibnetdiscover(fabgen.GenerateTree(fabgen.KAry(4))))
	baseline, bad := write(t, base.Encode()), write(t, []byte("no baseline"))
	groups := write(t, []byte("group,server\na,Hca0000\na,Hca0001\nb,Hca0002\nb,Hca0003\n"))
	for _, c := range []struct {
		args    []string
		servers int
		pods    bool
		down    int // cables
	}{
		{[]string{two}, 16, false, 0},
		{[]string{"--topology", two, "--fail", "Leaf001/5"}, 16, false, 1},
		{[]string{"--topology", two, "--baseline", baseline, "--fail", "Leaf001/5,Hca0003"}, 15, false, 1},
		{[]string{"--topology", two, "--exclude", "Hca000[01]"}, 14, false, 0},
		{[]string{"--topology", two, "--role", "storage=Hca0015", "--lmc", "2"}, 15, false, 0},
		{[]string{"--topology", two, "--exchange", groups}, 4, false, 0},
		{[]string{"--topology", two, "--node-name-map", write(t, []byte("0x200001 \"another\"\n"))}, 16, false, 0},
		{[]string{"--topology", three}, 16, true, 0},
	} {
		f := flags(t, c.args...)
		tree, err := f.Tree()
		switch {
		case err != nil:
			t.Errorf("%q: %v", c.args, err)
		case (tree.Pods != nil) != c.pods:
			t.Errorf("%q: %v", c.args, tree)
		default:
			down := 0
			for l := range tree.Leaves {
				for _, x := range tree.Leaves[l].Cables {
					if x.State == topology.Missing {
						down++
					}
				}
			}
			if len(tree.Servers) != c.servers || down != c.down {
				t.Errorf("%q: %d servers, %d cables down", c.args, len(tree.Servers), down)
			}
		}
	}
	for _, args := range [][]string{{}, {"--topology", bad}, {"--topology", two + "x"}, {two, "--baseline", bad}, {two, "--fail", "none"}, {two, "--exclude", "("}, {two, "--role", "king=x"},
		{two, "--role", "storage=("}, {two, "--exchange", bad}, {two, "--lmc", "9"}, {two, "--lmc", "1", "--guid2lid", bad}, {two, "--guid2lid", bad}} {
		if tree, err := flags(t, args...).Tree(); err == nil {
			t.Errorf("%q: %v", args, tree)
		}
	}
	f := flags(t, two, "--exclude", "Hca000[01]")
	if err := f.IgnoreUnlessGiven(); err != nil {
		t.Fatal(err)
	}
	fabric, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	if hosts, err := f.Without(fabric, fabric.ConnectedHosts()); err != nil || len(hosts) != 14 {
		t.Errorf("%d hosts: %v", len(hosts), err)
	}
}

// TestShow prints answers as text and as JSON.
func TestShow(t *testing.T) {
	for flag, want := range map[string]string{"--json=false": "a is 3\n", "--json": "{\n  \"schema\": \"x\",\n  \"version\": 1,\n  \"a\": 3\n}\n"} {
		var out bytes.Buffer
		cmd := NewRoot(&cobra.Command{Use: "x"})
		cmd.SetOut(&out)
		with := func(_ *cobra.Command, f func(context.Context, int) error) error { return f(t.Context(), 3) }
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return Answer(cmd, with, func(_ context.Context, n int) (map[string]int, error) { return map[string]int{"a": n}, nil }, func(w io.Writer, m map[string]int) {
				_, _ = io.WriteString(w, "a\tis "+Plural(m["a"], "", "")[:1]+"\n")
			})
		}
		if code := Run(cmd, []string{flag}, &out, &out); code != OK || strings.Join(strings.Fields(out.String()), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%s: %d %q, want %q", flag, code, out.String(), want)
		}
	}
	var out bytes.Buffer
	cmd := &cobra.Command{Use: "x"}
	cmd.SetOut(&out)
	if err := errors.Join(PrintLine(cmd, struct{}{}), Confirm(cmd, "sure?", true), WriteOut(cmd, "-", []byte("data")), Progress(cmd, 3).Finish()); err != nil || out.String() != "{\"schema\":\"x\",\"version\":1}\ndata" {
		t.Errorf("%q: %v", out.String(), err)
	}
	for text, got := range map[string]string{"0.42 ms": MS(0.42), "6.5 ms": MS(6.5), "21 ms": Took(21 * time.Millisecond), "12.0 s": Seconds(12), "never": Clock(time.Time{}), "1 job": Plural(1, "job", "jobs"), " (a)": InBrackets("a"), "": InBrackets("")} {
		if got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

// TestFiles checks the paths of files that flags name.
func TestFiles(t *testing.T) {
	cmd := &cobra.Command{}
	a := Output{Flag: "a", Path: "p", What: "figures"}
	b, none, all := a, Output{Flag: "c"}, a
	b.Flag, all.Path = "b", "-"
	if err := CheckOutputs(cmd, a, none, all); err != nil {
		t.Error(err)
	}
	if CheckOutputs(cmd, a, b) == nil || CheckOutput(cmd, none) == nil {
		t.Error("two outputs have one path, or a required one has none")
	}
	path := write(t, nil)
	if err := WriteOut(cmd, path, []byte("data")); err != nil {
		t.Error(err)
	}
	if text, err := ReadFlag("in", path, "a file"); err != nil || string(text) != "data" {
		t.Errorf("%q: %v", text, err)
	}
	if _, err := ReadFlag("in", "", "a file"); err == nil {
		t.Error("a flag that is required is missing")
	}
	if _, err := ReadPath(path, 3); err == nil {
		t.Error("a file of four bytes is read where three may be")
	}
	t.Setenv("FORSD_TOKEN_FILE", path)
	if c, err := CredentialsFromEnvironment().Read(); err != nil || c.Token != "data" || c.TLS != nil {
		t.Errorf("%+v: %v", c, err)
	}
	for _, c := range []Credentials{{Token: path + "x"}, {CA: path}, {CA: path + "x"}, {Cert: path, Key: path}} {
		if _, err := c.Read(); err == nil {
			t.Errorf("%+v is read", c)
		}
	}
}

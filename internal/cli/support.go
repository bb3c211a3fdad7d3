package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/command"
	"github.com/forsd/forsd/internal/config"
	"github.com/forsd/forsd/opensm"
)

// Limits of the parts of a bundle.
const (
	partWithin = 20 * time.Second
	mostOfFile = 32 << 20 // of a longer file, only the end
	mostOfLog  = 4 << 20
)

// told lists the endpoints whose answers a bundle contains.
var told = []string{"status", "topology", "fabric", "cables", "drains", "jobs", "epochs", "baseline", "whoami"}

// bundle is a support bundle that is being built.
type bundle struct {
	*archive
	ctx     context.Context
	clean   *cleaner
	now     time.Time
	missing strings.Builder // the missing parts, with reasons
}

func supportCommand() *cobra.Command {
	var path, out string
	cmd := &cobra.Command{
		Use:   "support --out FILE",
		Short: "Gather what those who help need to know, without secrets",
		Long: `Support writes one archive with what forsd says of itself, the settings of forsd
and OpenSM, OpenSM's dump and the end of its log, the journal of both for two days,
and what doctor finds. What cannot be had is named in missing.txt.

Tokens, keys, the address and the key of the webhook and OpenSM's management keys are
not in it: in texts [removed] stands in their place. Names of hosts and users are.
Run it as root to have everything.`,
		Example: "  sudo forsctl support --out forsd-support.tar.gz",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckOutput(cmd, command.Output{Flag: "out", Path: out, What: "the archive"}); err != nil {
				return err
			}
			c, err := config.Load(path)
			if err != nil {
				c = config.Default() // doctor reports the reason
			}
			token, _ := cmd.Flags().GetString("token-file")
			b := &bundle{archive: newArchive(), ctx: cmd.Context(), now: time.Now(), clean: newCleaner(secrets(path, token)...)}
			b.gather(cmd, path, c)
			b.put("missing.txt", []byte(b.missing.String()), nil)
			return b.write(cmd, out, "look at it before you send it")
		},
	}
	cmd.Flags().StringVar(&path, "config", config.DefaultPath, "forsd's configuration")
	cmd.Flags().StringVar(&out, "out", "", "the archive to write, - for standard output")
	return cmd
}

// named matches secret values in the settings: addresses, and the paths of files. It also works
// on settings with mistakes.
var named = regexp.MustCompile(`\b(?:url|secret_file|key):\s*["']?((?:/|https?://)[^\s"',}]+)`)

// secrets returns the texts that must not appear in a bundle.
func secrets(settings, token string) (all []string) {
	raw, _ := os.ReadFile(settings) // missing.txt names settings that cannot be read
	files := []string{token}
	for _, m := range named.FindAllStringSubmatch(string(raw), -1) {
		if filepath.IsAbs(m[1]) {
			files = append(files, m[1])
		} else {
			all = append(all, m[1])
		}
	}
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil {
			all = append(all, string(text))
		}
	}
	return all
}

// gather adds all parts.
func (b *bundle) gather(cmd *cobra.Command, path string, c *config.Config) {
	b.put("about.txt", fmt.Appendf(nil, "forsctl %s\n%s\n%s/%s\n", Version, b.now.Format(time.RFC3339), runtime.GOOS, runtime.GOARCH), nil)
	b.ask(cmd)
	for _, f := range []struct {
		name, path string
		most       int64
	}{
		{"forsd.yaml", path, mostOfFile}, {"opensm.conf", c.OpenSM.Conf, mostOfFile},
		{"guid2lid", filepath.Join(c.OpenSM.CacheDir, opensm.GUID2LIDFile), mostOfFile},
		{"opensm-subnet.lst", filepath.Join(c.OpenSM.DumpDir, "opensm-subnet.lst"), mostOfFile}, {"opensm.log", c.OpenSM.Log, mostOfLog},
	} {
		if f.path != "" {
			b.file(f.name, f.path, f.most)
		}
	}
	b.run("doctor.txt", os.Args[0], "doctor", "--config", path)
	b.run("journal-forsd.txt", "journalctl", "--no-pager", "-u", "forsd", "--since", "-2d", "-n", "50000")
	b.run("journal-opensm.txt", "journalctl", "--no-pager", "-u", c.OpenSM.Unit, "--since", "-2d", "-n", "50000")
	b.run("units.txt", "systemctl", "--no-pager", "status", "forsd", c.OpenSM.Unit)
	b.run("kernel.txt", "uname", "-a")
}

// put adds a text after removing the secrets, or records why it is not available.
func (b *bundle) put(name string, text []byte, err error) {
	if err == nil {
		err = b.add(&tar.Header{Name: "forsd-support/" + name, Mode: 0o600, ModTime: b.now}, b.clean.Text(text))
	}
	if err != nil {
		fmt.Fprintf(&b.missing, "%s: %v\n", name, err)
	}
}

// ask adds forsd's answers about itself.
func (b *bundle) ask(cmd *cobra.Command) {
	c, err := dial(cmd)
	if err != nil {
		b.put("forsd", nil, err)
		return
	}
	defer c.Close()
	get := func(name, path string) {
		ctx, cancel := context.WithTimeout(b.ctx, partWithin)
		defer cancel()
		text, err := c.Get(ctx, path)
		b.put(name, text, err)
	}
	for _, name := range told {
		get(name+".json", "/v1/"+name)
	}
	get("metrics.txt", "/metrics")
	b.history(c)
}

// history adds the newest events.
func (b *bundle) history(c *api.Client) {
	ctx, cancel := context.WithTimeout(b.ctx, partWithin)
	defer cancel()
	var text bytes.Buffer
	entries, err := readHistory(ctx, c, api.HistoryQuery{}, 5000)
	if err == nil {
		err = historyCSV(&text, entries)
	}
	b.put("history.csv", text.Bytes(), err)
}

// file adds a file, or the end of a long file.
func (b *bundle) file(name, path string, most int64) {
	f, err := os.Open(path)
	if err != nil {
		b.put(name, nil, err)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(info.Size()-most, io.SeekStart) // if this fails, the file is read from its start
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	b.put(name, text, err)
}

// run adds the output of a command.
func (b *bundle) run(name string, line ...string) {
	ctx, cancel := context.WithTimeout(b.ctx, partWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	if errors.As(err, new(*exec.ExitError)) {
		err = nil // doctor and systemctl use the exit code for their findings
	}
	if int64(len(text)) > mostOfFile {
		text = slices.Concat([]byte("[cut off]\n"), text[int64(len(text))-mostOfFile:])
	}
	b.put(name, text, err)
}

// removed replaces a secret.
const removed = "[removed]"

// shortest is the minimum length of a text to remove as a secret: shorter ones also occur in
// other words.
const shortest = 6

// cleaner removes known secrets, and text that looks like a secret.
type cleaner struct{ known *strings.Replacer }

// newCleaner returns a cleaner for known secrets: texts of one or more lines, or addresses, whose host
// may be shown. Each line is a secret by itself, since logs break texts.
func newCleaner(secrets ...string) *cleaner {
	var pairs []string
	add := func(secret, instead string) {
		if len(secret) < shortest {
			return
		}
		pairs = append(pairs, secret, instead)
		if text, err := json.Marshal(secret); err == nil { // its form in JSON
			pairs = append(pairs, strings.Trim(string(text), `"`), instead)
		}
	}
	for _, s := range secrets {
		for line := range strings.Lines(strings.TrimSpace(s)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "-----") {
				continue // a line around a key
			}
			if u, err := url.Parse(line); err == nil && u.Host != "" {
				add(line, u.Scheme+"://"+u.Hostname()+"/"+removed)
				add(strings.TrimPrefix(u.RequestURI(), "/"), removed) // logs may contain only the path
				if u.User != nil {
					add(u.User.String(), removed)
				}
				continue
			}
			add(line, removed)
			add(strings.TrimPrefix(line, "whsec_"), removed)
		}
	}
	return &cleaner{strings.NewReplacer(pairs...)}
}

// The formats of secrets, and their replacements.
var forms = []struct {
	form    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`), removed},
	{regexp.MustCompile(`whsec_[A-Za-z0-9+/=_-]+`), removed},
	{regexp.MustCompile(`(?i)\b(authorization|proxy-authorization|cookie|set-cookie|x-api-key|x-auth-token)("?\s*[:=]\s*)[^\r\n]+`), "$1$2" + removed},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`), "$1 " + removed},
	{regexp.MustCompile(`://[^/\s@"']+@`), "://" + removed + "@"},
	{regexp.MustCompile(`(?i)https://(hooks\.slack\.com|(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks|[a-z0-9.-]*webhook\.office\.com|[a-z0-9.-]*logic\.azure\.com|[a-z0-9.-]*powerplatform\.com)[^\s"'<>]*`), "https://$1/" + removed},
	{regexp.MustCompile(`(?i)(\burl["']?\s*:\s*["']?https?://[^/\s"',}]+)/[^\s"',}]*`), "$1/" + removed},
	{regexp.MustCompile(`(?i)([?&](?:token|key|sig|signature|secret|password|access_token)=)[^&\s"']+`), "${1}" + removed},
	// OpenSM's keys, and similar settings in any file. A path is not a secret.
	{regexp.MustCompile(`(?im)^(\s*#?\s*"?[\w.-]*(?:m_key|sm_key|sa_key|vs_key|cc_key|n2n_key|password|passwd|passphrase|secret|token|community)"?\s*[:= ]\s*)[^\s/][^\r\n]*$`), "${1}" + removed},
	{regexp.MustCompile(`(?i)\b((?:m_?key|sm_?key|sa_?key|password|passwd|passphrase|secret)["']?\s*[:=]\s*["']?)[^\s"',;/][^\s"',;]*`), "${1}" + removed},
}

// token matches forsd's tokens. Names of metrics have the same prefix, but no capital letters.
var token = regexp.MustCompile(`forsd_[A-Za-z0-9_-]{40,}`)

// Text returns a text without its secrets.
func (c *cleaner) Text(text []byte) []byte {
	out := []byte(c.known.Replace(string(text)))
	for _, f := range forms {
		out = f.form.ReplaceAll(out, []byte(f.instead))
	}
	return token.ReplaceAllFunc(out, func(found []byte) []byte {
		if bytes.Equal(found, bytes.ToLower(found)) {
			return found
		}
		return []byte("forsd_" + removed)
	})
}

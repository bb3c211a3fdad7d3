// Command man writes the manual pages into a directory, below man1, man5, man7 and man8:
// those of the commands of forsctl and forsplan from what they say of themselves, that of
// forsd.yaml from the file with every setting and its default, that of the warnings from
// docs/warnings.md.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forsd/forsd/internal/cli"
	"github.com/forsd/forsd/internal/forsplan"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: man DIRECTORY VERSION DATE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(dir, version, date string) error {
	for _, section := range []string{"man1", "man5", "man7", "man8"} {
		if err := os.MkdirAll(filepath.Join(dir, section), 0o755); err != nil {
			return err
		}
	}
	cli.Version, forsplan.Version = version, version
	for _, root := range []*cobra.Command{cli.Command(), forsplan.Command()} {
		if err := commands(root, filepath.Join(dir, "man1"), version, date); err != nil {
			return err
		}
	}
	settings, err := os.ReadFile("configs/forsd.yaml")
	if err != nil {
		return err
	}
	page := head("forsd.yaml", "5", version, date) + ".SH NAME\nforsd.yaml \\- settings of the fabric controller forsd\n.SH DESCRIPTION\n" +
		"forsd reads /etc/forsd/forsd.yaml when it starts and when it is told to reload it, and refuses keys that it does not know.\n" +
		"This is the file as it is installed: every setting with its default.\n.PP\n.nf\n" + verbatim(string(settings)) +
		".fi\n.SH SEE ALSO\n.BR forsd (8),\n.BR forsctl (1)\n"
	if err := os.WriteFile(filepath.Join(dir, "man5", "forsd.yaml.5"), []byte(page), 0o644); err != nil {
		return err
	}
	warnings, err := os.ReadFile("docs/warnings.md")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "man7", "forsd-warnings.7"), []byte(head("forsd-warnings", "7", version, date)+warningsPage(string(warnings))), 0o644); err != nil {
		return err
	}
	daemon, err := os.ReadFile("packaging/man/forsd.8")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "man8", "forsd.8"), append([]byte(head("forsd", "8", version, date)), daemon...), 0o644)
}

// markup is Markdown's of links, code and stress.
var markup = regexp.MustCompile("\\[([^]]*)\\]\\(([^)#]*)[^)]*\\)|[`*]")

// warningsPage is docs/warnings.md from the first code on.
func warningsPage(text string) string {
	var out strings.Builder
	out.WriteString(".SH NAME\nforsd-warnings \\- warnings of the fabric controller forsd, and what to do\n.SH DESCRIPTION\n")
	_, text, _ = strings.Cut(text, "\n## ")
	for entry := range strings.SplitSeq(text, "\n## ") {
		code, said, _ := strings.Cut(entry, "\n\n")
		said, commands, listed := strings.Cut(said, "\n\n```sh\n")
		said = markup.ReplaceAllStringFunc(strings.TrimSpace(said), func(m string) string {
			if parts := markup.FindStringSubmatch(m); parts[1] != "" {
				return parts[1] + " (" + parts[2] + ")"
			}
			return ""
		})
		fmt.Fprintf(&out, ".TP\n.B %s\n%s", escape(code), verbatim(strings.ReplaceAll(said, "\n\n", "\n")+"\n"))
		if listed {
			fmt.Fprintf(&out, ".nf\n%s.fi\n", verbatim(strings.TrimSuffix(strings.TrimSpace(commands), "```")))
		}
	}
	out.WriteString(".SH SEE ALSO\n.BR forsctl-status (1),\n.BR forsd (8)\n")
	return out.String()
}

// head begins a page.
func head(name, section, version, date string) string {
	return fmt.Sprintf(".TH \"%s\" %s \"%s\" \"forsd %s\" \"forsd\"\n", strings.ToUpper(escape(name)), section, date, version)
}

// verbatim has roff print text as it is.
func verbatim(text string) string {
	var out strings.Builder
	for line := range strings.Lines(escape(text)) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			out.WriteString(`\&`)
		}
		out.WriteString(line)
	}
	return out.String()
}

// escape has roff print characters that mean something to it.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commands writes the page of a command and those of all below it.
func commands(cmd *cobra.Command, dir, version, date string) error {
	name := pageOf(cmd)
	text := head(name, "1", version, date) + page(cmd)
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(text), 0o644); err != nil {
		return err
	}
	for _, sub := range shown(cmd) {
		if err := commands(sub, dir, version, date); err != nil {
			return err
		}
	}
	return nil
}

// shown lists the commands below one that have a page.
func shown(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			all = append(all, sub)
		}
	}
	return all
}

// pageOf is the name of a command's page.
func pageOf(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is what the page of a command says after its head.
func page(cmd *cobra.Command) string {
	var b strings.Builder
	cmd.InitDefaultHelpFlag() // which UseLine counts as a flag
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(pageOf(cmd)), escape(begun(cmd.Short)))
	use := strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", escape(cmd.CommandPath()), escape(use))
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(about))
	if subs := shown(cmd); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s.\n", escape(sub.CommandPath()), escape(sub.Short))
		}
	}
	b.WriteString(options("OPTIONS", cmd.NonInheritedFlags()) + options("COMMON OPTIONS", cmd.InheritedFlags()))
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", strings.TrimRight(verbatim(cmd.Example), "\n"))
	}
	b.WriteString(".SH SEE ALSO\n" + seeAlso(cmd))
	return b.String()
}

// begun is a title as it goes on after a dash: in small letters, unless it begins with a
// name.
func begun(title string) string {
	first, rest, _ := strings.Cut(title, " ")
	if strings.IndexFunc(first[1:], unicode.IsUpper) < 0 {
		first = strings.ToLower(first)
	}
	return first + " " + rest
}

// paragraphs is running text; what is indented in it stays as it is.
func paragraphs(text string) string {
	var b strings.Builder
	for i, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(p, " ") {
			b.WriteString(".nf\n" + verbatim(p) + "\n.fi\n")
			continue
		}
		b.WriteString(verbatim(p) + "\n")
	}
	return b.String()
}

// options lists flags under a title, "" for none.
func options(title string, flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "\\fB" + escape("--"+f.Name) + "\\fR"
		if f.Shorthand != "" {
			name = "\\fB" + escape("-"+f.Shorthand) + "\\fR, " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" && f.NoOptDefVal == "" {
			name += " \\fI" + escape(strings.ToUpper(valueName(kind))) + "\\fR"
		}
		if first, _, _ := strings.Cut(usage, ","); first != f.DefValue { // which is written as it is
			r, n := utf8.DecodeRuneInString(usage)
			usage = string(unicode.ToUpper(r)) + usage[n:]
		}
		usage += "."
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" && !strings.Contains(usage, "(default") {
			usage += " Default: " + d + "."
		}
		fmt.Fprintf(&b, ".TP\n%s\n%s\n", name, verbatim(usage))
	})
	if b.Len() == 0 {
		return ""
	}
	return ".SH " + title + "\n" + b.String()
}

// valueName is what the value of a flag is called, by its type or by its usage.
func valueName(kind string) string {
	switch kind {
	case "string", "strings", "stringArray":
		return "value"
	case "int", "uint", "uint64", "int64", "uint8":
		return "n"
	case "float", "float64":
		return "number"
	}
	return kind
}

// seeAlso names the pages above and beside a command's.
func seeAlso(cmd *cobra.Command) string {
	var pages []string
	if cmd.HasParent() {
		pages = append(pages, pageOf(cmd.Parent())+" (1)")
	}
	for _, sub := range shown(cmd) {
		pages = append(pages, pageOf(sub)+" (1)")
	}
	pages = append(pages, "forsd (8)", "forsd.yaml (5)")
	return ".BR " + escape(strings.Join(pages, ",\n.BR ")) + "\n"
}

package mend

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

const shown = `state      	idle
degraded: Cables are down (cable-down, since 2026-07-01 08:00:00)
  the cable Leaf001 port 6 – Spine001 port 2 is down
  what to do: Replace it.
    # replace the cable
  https://example.org/docs/warnings.md#cable-down
fail  config  /etc/forsd/forsd.yaml:12: planing: is unknown; see https://example.org/docs/warnings.md#configuration-refused
`

// TestMend follows a page: with the cable's name, by hand, and up to a command that fails.
func TestMend(t *testing.T) {
	page := "# Warnings\n\n## cable\n\n```sh\nwrong\n```\n\n## cable-down\n\nText.\n\n```sh\n# replace the cable\nforsctl cables SWITCH/PORT\n```\n\n## configuration-refused\n\n```sh\nsed -i 'LINEd' FILE\nforsctl reload\n```\n"
	failed := errors.New("failed")
	var did []string
	o := &Operator{Docs: "/docs", Hand: func(what string) error { did = append(did, "by hand: "+what); return nil }}
	o.Run = func(_ context.Context, script string) (string, error) {
		switch {
		case strings.HasPrefix(script, "sudo forsctl "):
			return shown, nil
		case script == "cat '/docs/warnings.md'":
			return page, nil
		}
		did = append(did, script)
		if strings.HasPrefix(script, "sed") {
			return "", failed
		}
		return "", nil
	}
	if _, err := o.Mend(t.Context(), "cable-down"); err != nil || !slices.Equal(did, []string{"by hand: replace the cable", "forsctl cables Leaf001/6"}) {
		t.Errorf("%q was done: %v", did, err)
	}
	did = nil
	if _, err := o.Mend(t.Context(), "configuration-refused"); !errors.Is(err, failed) || !slices.Equal(did, []string{"sed -i '12d' /etc/forsd/forsd.yaml"}) {
		t.Errorf("%q was done: %v", did, err)
	}
	if _, err := o.Mend(t.Context(), "cable"); err == nil {
		t.Error("a warning that is not shown is mended")
	}
	if filled, err := Fill("rm FILE", "104857600 /var/log/large\n", shown); err != nil || filled != "rm /var/log/large" {
		t.Errorf("%q: %v", filled, err)
	}
	if _, err := Fill("rm THAT", shown); err == nil {
		t.Error("an unknown placeholder is filled")
	}
}

// TestPagesHavePlaceholders checks that the commands of docs/warnings.md have placeholders that
// are known.
func TestPagesHavePlaceholders(t *testing.T) {
	text, err := os.ReadFile("../../docs/warnings.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	for section := range strings.SplitSeq(string(text), "\n## ") {
		code, _, _ := strings.Cut(section, "\n")
		commands := Commands(string(text), code)
		for _, line := range commands {
			for _, word := range capitals.FindAllString(line, -1) {
				if placeholders[word] == nil {
					t.Errorf("%s: %s in %s is not known", code, word, line)
				}
			}
		}
		pages += min(1, len(commands))
	}
	if pages < 7 {
		t.Errorf("%d pages have commands", pages)
	}
}

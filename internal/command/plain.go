package command

import (
	"io"
	"strings"
	"unicode"
)

// plain removes terminal control sequences from text. Names in files and of nodes come from
// others, and may contain escape sequences.
type plain struct{ io.Writer }

// Write writes p, and replaces each control character except tabs and line feeds by a visible
// sign.
func (w plain) Write(p []byte) (int, error) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, string(p))
	if _, err := io.WriteString(w.Writer, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw returns the writer for output other than text.
func Raw(w io.Writer) io.Writer {
	if p, is := w.(plain); is {
		return p.Writer
	}
	return w
}

package command

import (
	"io"
	"strings"
	"unicode"
)

// plain passes text on to people without what would steer their terminal: names in files
// and of nodes are other people's, and may hold escape sequences.
type plain struct{ io.Writer }

// Write writes p, with a sign in the place of each control character but tabs and the ends
// of lines.
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

// Raw returns the writer for output that is not text.
func Raw(w io.Writer) io.Writer {
	if p, is := w.(plain); is {
		return p.Writer
	}
	return w
}

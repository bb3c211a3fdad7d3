package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxSize bounds a configuration file, in bytes.
const maxSize = 1 << 20

// Load reads and checks the configuration file at path. Errors in its content are an *Error.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read configuration: %w: name a file that is there by --config", err)
	} else if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if errors.Is(err, syscall.EISDIR) {
		return nil, fmt.Errorf("read configuration: %w: name the file in it", err)
	} else if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(data, path)
}

// Parse reads and checks a configuration. Each error contains name, usually the path. Keys
// missing from data have the values of Default, except version, which is mandatory. The error
// is an *Error.
func Parse(data []byte, name string) (*Config, error) {
	if len(data) > maxSize {
		return nil, newError(name, []Problem{{Text: fmt.Sprintf("is longer than %d bytes: this is not a configuration of forsd", maxSize)}})
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, newError(name, []Problem{syntaxProblem(err)})
	}
	c := Default()
	d := decoder{lines: map[string]int{}}
	d.file(file, c)
	if _, ok := d.lines["version"]; !ok {
		d.add(0, "version", "is missing: write version: %d", Version)
	}
	// Values with errors were reported already, and have their defaults now.
	for _, p := range c.problems() {
		p.Line = d.lines[p.Key]
		d.problems = append(d.problems, p)
	}
	if err := newError(name, d.problems); err != nil {
		return nil, err
	}
	return c, nil
}

// syntaxProblem converts an error of the YAML parser.
func syntaxProblem(err error) Problem {
	if at, ok := errors.AsType[yaml.Error](err); ok && at.GetToken() != nil {
		text := "is not YAML: " + at.GetMessage()
		if strings.Contains(text, "tab character") || strings.ContainsRune(text, '\t') {
			text += ": indent by spaces, not by tabs"
		}
		return Problem{Line: at.GetToken().Position.Line, Text: text}
	}
	return Problem{Text: "is not YAML: " + err.Error()}
}

// decoder fills a Config from a syntax tree. It continues after a problem.
type decoder struct {
	problems []Problem
	lines    map[string]int // of each key in the file
}

func (d *decoder) add(line int, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (d *decoder) file(file *ast.File, c *Config) {
	var docs []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			docs = append(docs, doc.Body)
		}
	}
	if len(docs) > 1 {
		d.add(lineOf(docs[1]), "", "begins a second document: a configuration is one")
	}
	if len(docs) > 0 {
		d.group(docs[0], lineOf(docs[0]), "", reflect.ValueOf(c).Elem())
	}
}

// lineOf returns the line of a node, or 0 if the parser does not know it.
func lineOf(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

// group reads a mapping into a struct. key is its name, or "" for the file. An empty group
// leaves all defaults.
func (d *decoder) group(n ast.Node, line int, key string, dst reflect.Value) {
	if n == nil || n.Type() == ast.NullType {
		return
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		d.add(line, key, "is not a group of keys")
		return
	}
	for it := m.MapRange(); it.Next(); {
		kv := it.KeyValue()
		at := lineOf(kv.Key)
		name, ok := kv.Key.(*ast.StringNode)
		if !ok {
			d.add(at, key, "has the key %s, which is not a plain word", strings.TrimSpace(kv.Key.String()))
			continue
		}
		d.member(kv.Value, at, key, name.Value, dst)
	}
}

// gone lists the keys of earlier versions.
var gone = strings.Fields(`opensm.umad_window cables.drops cables.downed cables.recoveries cables.integrity cables.overruns
	cables.discards cables.waits cables.returns cables.returns_within cables.congestion`)

// member reads the value of one key of a group.
func (d *decoder) member(n ast.Node, line int, group, name string, dst reflect.Value) {
	key := name
	if group != "" {
		key = group + "." + name
	}
	all := fields(dst.Type())
	i := slices.IndexFunc(all, func(f reflect.StructField) bool { return f.Tag.Get("yaml") == name })
	if i < 0 && slices.Contains(gone, key) {
		d.add(line, key, "is gone, and forsd works by what was its default: take the line out")
		return
	}
	if i < 0 {
		var keys []string
		for _, f := range all {
			keys = append(keys, f.Tag.Get("yaml"))
		}
		d.add(line, key, "is unknown: the keys here are %s", strings.Join(keys, ", "))
		return
	}
	field := dst.FieldByIndex(all[i].Index)
	d.lines[key] = line
	if isGroup(field.Type()) {
		d.group(n, line, key, field)
	} else if err := setValue(field, all[i].Tag.Get("one"), n); err != nil {
		d.add(line, key, "%v", err)
	}
}

// fields lists the fields of a struct. It replaces an embedded struct by its fields.
func fields(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.Anonymous })
}

// isGroup reports whether a field is a group of keys.
func isGroup(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// setValue reads a value, which must be one of the words if there are any. On error it leaves
// the field unchanged.
func setValue(field reflect.Value, words string, n ast.Node) error {
	if list, ok := field.Addr().Interface().(*[]string); ok {
		return setList(list, n)
	}
	text, err := scalar(n)
	if err != nil {
		return err
	}
	if words != "" {
		if all := strings.Fields(words); !slices.Contains(all, text) {
			return fmt.Errorf("%q is not one of %s", text, strings.Join(all, ", "))
		}
		field.SetString(text)
		return nil
	}
	switch dst := field.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return dst.UnmarshalText([]byte(text))
	case *string:
		*dst = text
	case *bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*dst = text == "true"
	case *int:
		return setNumber(dst, text, "a whole number", strconv.Atoi)
	case *float64:
		return setNumber(dst, text, "a number", func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	case *time.Duration:
		return setNumber(dst, text, "a duration such as 10s or 2m", time.ParseDuration)
	case *os.FileMode:
		return setNumber(dst, text, "a file mode such as 0660", func(s string) (os.FileMode, error) {
			v, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32) // octal, with or without the prefix 0 or 0o
			return os.FileMode(v), err
		})
	case **regexp.Regexp:
		re, err := regexp.Compile(text)
		if err != nil {
			return fmt.Errorf("is not a regular expression: %w", err)
		}
		if *dst = re; text == "" {
			*dst = nil
		}
	default:
		panic(fmt.Sprintf("config: no reader for a field of type %s", field.Type()))
	}
	return nil
}

// scalar returns the text of a value that is neither a list nor a group. Numbers and words are
// not converted: 0660 stays 0660.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	case nil, *ast.NullNode:
		return "", errors.New("has no value: leave the line out for the default")
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "", errors.New("has an anchor, an alias or a tag: write the value itself")
	}
	return "", errors.New("is a list or a group where one value is wanted")
}

// setList reads a list of words.
func setList(dst *[]string, n ast.Node) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return errors.New("is not a list such as [dump_fts, -n]")
	}
	list := make([]string, len(seq.Values))
	for i, item := range seq.Values {
		text, err := scalar(item)
		if err != nil {
			return fmt.Errorf("item %d %w", i+1, err)
		}
		list[i] = text
	}
	*dst = list
	return nil
}

// setNumber reads a value with parse. The parameter what describes valid values in the error.
func setNumber[T any](dst *T, text, what string, parse func(string) (T, error)) error {
	v, err := parse(text)
	if err != nil {
		return fmt.Errorf("%q is not %s", text, what)
	}
	*dst = v
	return nil
}

// Problem is an error in a configuration.
type Problem struct {
	Line int    // from 1; 0 if the file does not contain the key
	Key  string // such as "opensm.lmc"; "" for the whole file
	Text string // the error and its remedy
}

// String prints the problem without its line.
func (p Problem) String() string {
	if p.Key == "" {
		return p.Text
	}
	return p.Key + ": " + p.Text
}

// Error has all problems of a configuration, sorted by line.
type Error struct {
	Name     string // the path of the file
	Problems []Problem
}

// Error prints one line for each problem, as "file:line: key: problem".
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		if p.Line > 0 {
			lines[i] = fmt.Sprintf("%s:%d: %s", e.Name, p.Line, p)
		} else {
			lines[i] = fmt.Sprintf("%s: %s", e.Name, p)
		}
	}
	return strings.Join(lines, "\n")
}

// newError sorts the problems and removes duplicates. Without problems it returns nil.
func newError(name string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Text, b.Text))
	})
	return &Error{Name: name, Problems: slices.Compact(problems)}
}

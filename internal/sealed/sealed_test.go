package sealed

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSeal seals objects and opens them again. It checks that every change of the text is
// detected, or makes it invalid JSON, or adds an unknown member.
func TestSeal(t *testing.T) {
	type inner struct{ A, B int }
	type outer struct {
		Name  string
		Inner *inner
	}
	for _, v := range []outer{{"}", nil}, {"a", &inner{1, 2}}} {
		for _, indent := range []string{"", " ", "  "} {
			text, err := json.MarshalIndent(v, "", indent)
			if err != nil {
				t.Fatal(err)
			}
			if plain, err := Open(text); err != nil || string(plain) != string(text) {
				t.Errorf("a text without a checksum: %q, %v", plain, err)
			}
			sealed := Seal(append(text, '\n'))
			if !json.Valid(sealed) {
				t.Errorf("%q is no JSON", sealed)
			}
			open, err := Open(sealed)
			if err != nil {
				t.Fatal(err)
			}
			var got outer
			if err := json.Unmarshal(open, &got); err != nil || !cmp.Equal(v, got) {
				t.Errorf("%q: %v", open, err)
			}
			for i := range sealed {
				for bit := range 8 {
					bad := append([]byte{}, sealed...)
					bad[i] ^= 1 << bit
					var fields map[string]any
					open, err := Open(bad)
					if errors.Is(err, ErrDamaged) || json.Unmarshal(open, &fields) != nil || len(fields) != 2 {
						continue
					}
					t.Fatalf("bit %d of byte %d of %q is flipped, and nothing is amiss", bit, i, sealed)
				}
			}
			for n := range sealed {
				if open, err := Open(sealed[:n]); err == nil && json.Valid(open) {
					t.Fatalf("%q passes", sealed[:n])
				}
			}
		}
	}
}

// TestReadFile decodes files: sealed, damaged, with an unknown member, with more, and absent.
func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for text, good := range map[string]bool{
		string(Seal([]byte(`{"A": 3}`))): true,
		`{"A": 3}`:                       true,
		`{"A": 3} {}`:                    false,
		`{"A": 3, "B": 4}`:               false,
		strings.Replace(string(Seal([]byte(`{"A": 3}`))), "3", "4", 1): false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got struct{ A int }
		if err := ReadFile(path, &got); (err == nil) != good || good && got.A != 3 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if err := ReadFile(path+"x", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is absent: %v", err)
	}
}

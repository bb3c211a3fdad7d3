// Package sealed adds a checksum to JSON files, as the last member of their object. Without it
// a flipped bit could go unnoticed.
package sealed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	before = ",\n \"checksum\": \""
	after  = "\"\n}\n"
	digits = 2 * sha256.Size
)

// ErrDamaged means that a text has changed since it was sealed.
var ErrDamaged = errors.New("the checksum does not fit: the file is damaged, or was edited (then remove its line \"checksum\" and the comma before it)")

// Seal adds a checksum to the text of a JSON object, which must not be empty and must end with
// a brace.
func Seal(object []byte) []byte {
	object = bytes.TrimRight(bytes.TrimSuffix(bytes.TrimSpace(object), []byte("}")), " \n")
	return append(append(append(bytes.Clone(object), before...), sum(object)...), after...)
}

// Open returns a text without its checksum. It returns a text without a checksum, from an
// earlier version, unchanged.
func Open(text []byte) ([]byte, error) {
	at := bytes.LastIndex(text, []byte(before))
	if at < 0 {
		return text, nil
	}
	if rest := text[at+len(before):]; len(rest) != digits+len(after) || string(rest) != sum(text[:at])+after {
		return nil, ErrDamaged
	}
	return append(bytes.Clone(text[:at]), "\n}\n"...), nil
}

// ReadFile decodes a file. The error contains its path, and is fs.ErrNotExist if it does
// not exist.
func ReadFile(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := Decode(text, into); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}

// Decode decodes a whole text into a value, and checks it as Open does. An unknown member is an
// error.
func Decode(text []byte, into any) error {
	text, err := Open(text)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the end of the object")
	}
	return nil
}

// sum returns the checksum of an object without its last brace.
func sum(object []byte) string {
	s := sha256.Sum256(object)
	return hex.EncodeToString(s[:])
}

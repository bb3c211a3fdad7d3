package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/forsd/forsd/internal/sealed"
)

// Token is what is known of a token. The token itself is known to those who have it alone.
type Token struct {
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	By      string    `json:"by"` // who created it
}

// stored is a token as the file has it.
type stored struct {
	Token
	Hash string `json:"hash"` // SHA-256, hexadecimal: tokens are random, so a slow hash adds nothing
}

// Tokens are the tokens that are valid, kept in a file. They are safe for concurrent use.
type Tokens struct {
	path string
	mu   sync.Mutex // guards what follows
	list []stored
	bad  error // why the file could not be read; it stays as it is
}

// prefix is what every token begins with, so that those who find one know what it is.
const prefix = "forsd_"

// MostTokens is how many tokens there may be.
const MostTokens = 1000

// MostLife is how long a token may live.
const MostLife = 366 * 24 * time.Hour

// Reasons why a token is not made or found.
var (
	ErrName    = errors.New("want a letter, then letters, digits and . _ - @ up to 64 in all")
	ErrTaken   = errors.New("there is a token of this name: revoke it, or take another name")
	ErrUnknown = errors.New("there is no such token")
	ErrRole    = errors.New("want viewer, operator or administrator")
	ErrLife    = fmt.Errorf("want a time to live, and %s at most", MostLife)
	ErrMany    = fmt.Errorf("there are %d tokens: revoke some", MostTokens)
)

var tokenName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._@-]{0,63}$`)

// OpenTokens reads the tokens of a file; a missing file means no tokens. After an error no
// token is valid.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		var file struct {
			Tokens []stored `json:"tokens"`
		}
		if err = sealed.Decode(text, &file); err == nil {
			t.list = file.Tokens
			return t, nil
		}
	}
	t.bad = fmt.Errorf("the tokens in %s cannot be read, and none is valid: %w", path, err)
	return t, t.bad
}

// Create makes a token and returns it, for the only time.
func (t *Tokens) Create(name string, role Role, life time.Duration, by string, now time.Time) (secret string, made Token, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	switch {
	case t.bad != nil:
		return "", made, t.bad
	case !tokenName.MatchString(name):
		return "", made, ErrName
	case role < Viewer:
		return "", made, ErrRole
	case life <= 0 || life > MostLife:
		return "", made, ErrLife
	case slices.ContainsFunc(t.list, func(s stored) bool { return s.Name == name && now.Before(s.Expires) }):
		return "", made, ErrTaken
	case len(t.list) >= MostTokens:
		return "", made, ErrMany
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it does not fail
	secret = prefix + base64.RawURLEncoding.EncodeToString(random)
	made = Token{Name: name, Role: role, Created: now.UTC().Truncate(time.Second), Expires: now.Add(life).UTC().Truncate(time.Second), By: by}
	next := append(slices.DeleteFunc(slices.Clone(t.list), func(s stored) bool { return s.Name == name }), stored{made, hash(secret)})
	if err := t.write(next); err != nil {
		return "", made, err
	}
	return secret, made, nil
}

// Revoke ends a token.
func (t *Tokens) Revoke(name string, now time.Time) (Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	i := slices.IndexFunc(t.list, func(s stored) bool { return s.Name == name })
	if i < 0 {
		return Token{}, ErrUnknown
	}
	was := t.list[i].Token
	return was, t.write(slices.Delete(slices.Clone(t.list), i, i+1))
}

// List lists the tokens that are valid, by name.
func (t *Tokens) List(now time.Time) []Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	out := []Token{}
	for _, s := range t.list {
		if now.Before(s.Expires) {
			out = append(out, s.Token)
		}
	}
	slices.SortFunc(out, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Find returns the valid token that a secret is.
func (t *Tokens) Find(secret string, now time.Time) (Token, bool) {
	want := hash(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.list {
		if s.Hash == want && now.Before(s.Expires) {
			return s.Token, true
		}
	}
	return Token{}, false
}

// told is how long a token that has expired is told of, unless it is revoked or made again.
const told = near

// prune forgets what has expired long ago. The file forgets it when it is written next.
func (t *Tokens) prune(now time.Time) {
	t.list = slices.DeleteFunc(slices.Clone(t.list), func(s stored) bool { return !now.Before(s.Expires.Add(told)) })
}

// Terms are how long the tokens hold, also of those that have expired lately.
func (t *Tokens) Terms(now time.Time) (out []Term) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	for _, s := range t.list {
		out = append(out, Term{"token", "the token " + s.Name, s.Created, s.Expires})
	}
	return out
}

// write replaces the file, and then the list.
func (t *Tokens) write(next []stored) error {
	text, err := json.MarshalIndent(struct {
		Tokens []stored `json:"tokens"`
	}{append([]stored{}, next...)}, "", " ")
	if err == nil {
		err = renameio.WriteFile(t.path, sealed.Seal(text), 0o600, renameio.IgnoreUmask())
	}
	if err != nil {
		return fmt.Errorf("store tokens: %w", err)
	}
	t.list = next
	return nil
}

func hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

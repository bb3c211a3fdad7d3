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

	"github.com/forsd/forsd/api"
	"github.com/forsd/forsd/internal/sealed"
)

// kept is a Token in the form of the file.
type kept struct {
	Name    string    `json:"name"`
	Role    api.Role  `json:"role"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	By      string    `json:"by"`
}

// stored is a token in the file.
type stored struct {
	kept
	Hash string `json:"hash"` // SHA-256, hexadecimal: tokens are random, so a slow hash adds nothing
}

// Tokens is the set of valid tokens, kept in a file. It is safe for concurrent use.
type Tokens struct {
	path string
	mu   sync.Mutex // guards the fields below
	list []stored
	bad  error // why the file could not be read; it is then not changed
}

// prefix begins every token, so that a token that is found can be recognized.
const prefix = "forsd_"

// MostTokens is the maximum number of tokens.
const MostTokens = 1000

// MostLife is the maximum lifetime of a token.
const MostLife = 366 * 24 * time.Hour

// Errors for tokens that cannot be created or found.
var (
	ErrName    = errors.New("want a letter, then letters, digits and . _ - @ up to 64 in all")
	ErrTaken   = errors.New("there is a token of this name: revoke it, or take another name")
	ErrUnknown = errors.New("there is no such token")
	ErrRole    = errors.New("want viewer, operator or administrator")
	ErrLife    = fmt.Errorf("want a time to live, and %s at most", MostLife)
	ErrMany    = fmt.Errorf("there are %d tokens: revoke some", MostTokens)
)

var tokenName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._@-]{0,63}$`)

// OpenTokens reads the tokens of a file. A missing file means no tokens. After an error no
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

// Create makes a token and returns it. It cannot be retrieved later.
func (t *Tokens) Create(name string, role api.Role, life time.Duration, by string, now time.Time) (secret string, made api.Token, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	switch {
	case t.bad != nil:
		return "", made, t.bad
	case !tokenName.MatchString(name):
		return "", made, ErrName
	case role < api.Viewer:
		return "", made, ErrRole
	case life <= 0 || life > MostLife:
		return "", made, ErrLife
	case slices.ContainsFunc(t.list, func(s stored) bool { return s.Name == name && now.Before(s.Expires) }):
		return "", made, ErrTaken
	case len(t.list) >= MostTokens:
		return "", made, ErrMany
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	secret = prefix + base64.RawURLEncoding.EncodeToString(random)
	made = api.Token{Name: name, Role: role, Created: now.UTC().Truncate(time.Second), Expires: now.Add(life).UTC().Truncate(time.Second), By: by}
	next := append(slices.DeleteFunc(slices.Clone(t.list), func(s stored) bool { return s.Name == name }), stored{kept(made), hash(secret)})
	if err := t.write(next); err != nil {
		return "", made, err
	}
	return secret, made, nil
}

// Revoke makes a token invalid.
func (t *Tokens) Revoke(name string, now time.Time) (api.Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	i := slices.IndexFunc(t.list, func(s stored) bool { return s.Name == name })
	if i < 0 {
		return api.Token{}, ErrUnknown
	}
	was := api.Token(t.list[i].kept)
	return was, t.write(slices.Delete(slices.Clone(t.list), i, i+1))
}

// List lists the valid tokens by name.
func (t *Tokens) List(now time.Time) []api.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prune(now)
	out := []api.Token{}
	for _, s := range t.list {
		if now.Before(s.Expires) {
			out = append(out, api.Token(s.kept))
		}
	}
	slices.SortFunc(out, func(a, b api.Token) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Find returns the valid token with a secret.
func (t *Tokens) Find(secret string, now time.Time) (api.Token, bool) {
	want := hash(secret)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.list {
		if s.Hash == want && now.Before(s.Expires) {
			return api.Token(s.kept), true
		}
	}
	return api.Token{}, false
}

// told is how long an expired token is reported, unless it is revoked or made again.
const told = near

// prune drops tokens that expired long ago. The next write removes them from the file.
func (t *Tokens) prune(now time.Time) {
	t.list = slices.DeleteFunc(slices.Clone(t.list), func(s stored) bool { return !now.Before(s.Expires.Add(told)) })
}

// Terms returns the periods of validity of the tokens, including those that expired lately.
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

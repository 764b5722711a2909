package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// DefaultInterval is the time between two looks at the file. A ConfigMap takes about a minute to arrive, so nobody waits for us.
const DefaultInterval = 10 * time.Second

// Watcher reloads a configuration when its file has changed, which it sees by the hash of what it reads: a mounted ConfigMap is swapped by a
// link that file watches lose. A file that is refused changes nothing, and says so once. Fill the fields, then call Run once.
type Watcher struct {
	// Source is where the configuration comes from; its Path is the file that is watched.
	Source Source
	// Current is the configuration in force when Run begins, as [Load] returned it, with "auto" still in it. Must not be nil; from then on it is Run's own.
	Current *Config
	// Interval is the time between two looks; 0 means [DefaultInterval].
	Interval time.Duration
	// Signal asks for a look at once, and to apply the file even when it is the same. Main connects it to SIGHUP. May be nil.
	Signal <-chan os.Signal
	// Fixed lists dotted paths that only a restart changes, beside "listen".
	Fixed []string
	// Apply puts a new configuration in force, as a whole or, when it returns an error, not at all. In it, what only a restart changes is as it was.
	// It is called from one goroutine.
	Apply func(*Config) error
	// Counted, when not nil, is told the result of each reload: "applied", "refused" or "failed".
	Counted func(result string)
	// Logger may be nil.
	Logger *slog.Logger

	seen [sha256.Size]byte
}

// Run watches until ctx ends, and returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	if w.Logger == nil {
		w.Logger = slog.New(slog.DiscardHandler)
	}
	if w.Interval <= 0 {
		w.Interval = DefaultInterval
	}
	if data, err := readFile(w.Source.Path); err == nil {
		// Loaded a moment ago by whoever made Current. Should it have changed since, it differs from Current, and the first look finds out.
		if c, _, err := w.Source.load(data); err == nil && len(Changes(w.Current, c)) == 0 {
			w.seen = sha256.Sum256(data)
		}
	}
	ticker := time.NewTicker(w.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			w.look(false)
		case <-w.Signal:
			w.look(true)
		}
	}
}

// look reads the file and applies it if it has changed or the operator asked.
func (w *Watcher) look(asked bool) {
	data, err := readFile(w.Source.Path)
	if err != nil {
		data = []byte(err.Error()) // a file that stays unreadable is reported once, like one that stays wrong
	}
	sum := sha256.Sum256(data)
	if !asked && bytes.Equal(sum[:], w.seen[:]) {
		return
	}
	w.seen = sum
	if err != nil {
		w.count("refused")
		w.Logger.Error("configuration refused, the old one stays in force", "file", w.Source.Path, "error", err)

		return
	}
	next, warnings, err := w.Source.load(data)
	for _, warning := range warnings {
		w.Logger.Warn("configuration is strange", "warning", warning.String())
	}
	if err != nil {
		w.count("refused")
		w.Logger.Error("configuration refused, the old one stays in force", "file", w.Source.Path, "error", err)

		return
	}
	w.apply(next)
}

func (w *Watcher) apply(next *Config) {
	fixed := append([]string{"listen"}, w.Fixed...)
	var restart, changed []string
	for _, path := range Changes(w.Current, next) {
		if slices.ContainsFunc(fixed, func(f string) bool { return path == f || strings.HasPrefix(path, f+".") }) {
			restart = append(restart, path)
		} else {
			changed = append(changed, path)
		}
	}
	if len(restart) > 0 {
		w.Logger.Warn("restart needed for changed keys", "keys", restart)
	}
	for _, path := range fixed {
		into, ok := lookup(reflect.ValueOf(next).Elem(), path)
		from, _ := lookup(reflect.ValueOf(w.Current).Elem(), path)
		if ok {
			into.Set(from)
		}
	}
	if err := w.Apply(next); err != nil {
		w.count("failed")
		w.Logger.Error("configuration could not be applied, the old one stays in force", "file", w.Source.Path, "error", err)

		return
	}
	w.Current = next
	w.count("applied")
	w.Logger.Info("configuration reloaded", "file", w.Source.Path, "changed", changed)
}

func (w *Watcher) count(result string) {
	if w.Counted != nil {
		w.Counted(result)
	}
}

// Changes lists the dotted paths of the keys in which two configurations differ, in the order of the file. A list or a map counts as one key.
func Changes(a, b *Config) []string {
	return changes(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), "")
}

func changes(a, b reflect.Value, path string) []string {
	if isScalar(a.Type()) || a.Kind() != reflect.Struct {
		if same(a, b) {
			return nil
		}

		return []string{path}
	}
	var found []string
	for _, k := range keysOf(a.Type()) {
		found = append(found, changes(a.Field(k.index), b.Field(k.index), join(path, k.name))...)
	}

	return found
}

// same compares what a user can see: an empty list is as good as none.
func same(a, b reflect.Value) bool {
	if isScalar(a.Type()) {
		return a.Interface() == b.Interface()
	}
	switch a.Kind() { //nolint:exhaustive // no configuration has a field of another kind
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Struct:
		return len(changes(a, b, "")) == 0
	case reflect.Slice:
		equal := a.Len() == b.Len()
		if a.Type() == reflect.TypeFor[units.AutoList]() {
			equal = equal && a.IsNil() == b.IsNil() // "auto" is not "none"
		}
		for i := 0; equal && i < a.Len(); i++ {
			equal = same(a.Index(i), b.Index(i))
		}

		return equal
	case reflect.Map:
		equal := a.Len() == b.Len()
		for _, name := range a.MapKeys() {
			other := b.MapIndex(name)
			equal = equal && other.IsValid() && same(a.MapIndex(name), other)
		}

		return equal
	default:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
}

// Package team is what the consumers of one team have in common, whatever the library: settings, handlers, and the page.
package team

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

const RetryAfter = time.Second

type Config struct {
	Library        string  `json:"library"`
	Bootstrap      string  `json:"bootstrap"`
	Group          string  `json:"group"`
	Topic          string  `json:"topic"`
	ClientID       string  `json:"client_id"`
	Style          string  `json:"style"` // loop or partition
	MaxPoll        int     `json:"max_poll"`
	CommitSeconds  float64 `json:"commit_seconds"`
	SessionSeconds float64 `json:"session_seconds"`
	MetricsPort    string  `json:"metrics_port"`
	ByType         bool    `json:"by_type"`
}

func (c Config) Session() time.Duration     { return Duration(c.SessionSeconds) }
func (c Config) CommitEvery() time.Duration { return Duration(c.CommitSeconds) }

func Duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// Behaviour is how the handlers behave; its file is read again when it changes.
type Behaviour struct {
	ProcessSeconds map[string]float64 `json:"process_seconds"`
	Jitter         float64            `json:"jitter"`
	Stalled        []string           `json:"stalled"`
	Slower         map[string]float64 `json:"slower"`
	DelaySeconds   float64            `json:"delay_seconds"`
	Poison         string             `json:"poison"`  // retry or crash
	Fails          bool               `json:"fails"`   // what the handlers call refuses
	Commits        string             `json:"commits"` // sent, refused or none
	Paused         []int32            `json:"paused"`
}

type Watched struct {
	mu      sync.Mutex
	current Behaviour
}

func Read[T any](path string) (T, error) {
	var found T
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	return found, err
}

// Follow reads a file now, and again and again.
func Follow(path string) (*Watched, error) {
	found, err := Read[Behaviour](path)
	if err != nil {
		return nil, err
	}
	w := &Watched{current: found}
	go func() {
		for {
			time.Sleep(300 * time.Millisecond)
			if found, err := Read[Behaviour](path); err == nil {
				w.mu.Lock()
				w.current = found
				w.mu.Unlock()
			}
		}
	}()
	return w, nil
}

func (w *Watched) Get() Behaviour {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

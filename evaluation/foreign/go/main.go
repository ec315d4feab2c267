// A consumer on franz-go, as a team would write it: a poll loop, or a goroutine for each partition, with kprom's page.
//
//	foreign CONFIG.json BEHAVIOUR.json
package main

import (
	"context"
	"encoding/json"
	"log"
	"math/rand"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kgo"
)

type config struct {
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

// How the handlers behave; the file is read again when it changes.
type behaviour struct {
	ProcessSeconds map[string]float64 `json:"process_seconds"`
	Jitter         float64            `json:"jitter"`
	Stalled        []string           `json:"stalled"`
	Poison         string             `json:"poison"`  // retry or crash
	Commits        string             `json:"commits"` // sent, refused or none
}

type watched struct {
	mu      sync.Mutex
	current behaviour
}

func (w *watched) get() behaviour {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

func read[T any](path string) (T, error) {
	var found T
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	return found, err
}

func (w *watched) follow(path string) {
	for {
		if found, err := read[behaviour](path); err == nil {
			w.mu.Lock()
			w.current = found
			w.mu.Unlock()
		}
		time.Sleep(300 * time.Millisecond)
	}
}

type handlers struct {
	config    config
	behaviour *watched
	metrics   *metrics
}

func header(record *kgo.Record, name string) (string, bool) {
	for _, it := range record.Headers {
		if it.Key == name {
			return string(it.Value), true
		}
	}
	return "", false
}

// one handles a record; false if it cannot be handled.
func (h *handlers) one(record *kgo.Record) bool {
	told := h.behaviour.get()
	kind, _ := header(record, "event_type")
	shown := "all"
	if h.config.ByType {
		shown = kind
	}
	began := time.Now()
	for _, name := range told.Stalled {
		if name == h.config.ClientID {
			select {} // a call without a timeout that is never answered
		}
	}
	if _, poisoned := header(record, "poison"); poisoned && told.Poison != "" {
		if told.Poison == "crash" {
			panic("index out of range in the handler of a record")
		}
		h.metrics.handled(shown, "retry", time.Since(began))
		return false
	}
	seconds := told.ProcessSeconds[kind] * (1 + told.Jitter*(2*rand.Float64()-1))
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	h.metrics.handled(shown, "ok", time.Since(began))
	return true
}

func main() {
	if os.Args[1] == "quota" {
		limit(os.Args[2], os.Args[3], os.Args[4:])
		return
	}
	settings, err := read[config](os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	follow := &watched{}
	if follow.current, err = read[behaviour](os.Args[2]); err != nil {
		log.Fatal(err)
	}
	go follow.follow(os.Args[2])
	shown := newMetrics(settings)
	http.Handle("/metrics", promhttp.HandlerFor(shown.registry, promhttp.HandlerOpts{}))
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:"+settings.MetricsPort, nil)) }()
	over, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	consume(over, settings, &handlers{settings, follow, shown}, shown)
}

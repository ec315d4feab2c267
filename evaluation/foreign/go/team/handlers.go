package team

import (
	"math/rand"
	"slices"
	"time"
)

type Handlers struct {
	Config    Config
	Behaviour *Watched
	Page      *Page
}

// One handles a record, whose headers it looks up by name; false if it cannot be handled.
func (h *Handlers) One(header func(name string) (string, bool), sent time.Time) bool {
	told := h.Behaviour.Get()
	time.Sleep(time.Until(sent.Add(Duration(told.DelaySeconds)))) // not before its time
	kind, _ := header("event_type")
	shown := "all"
	if h.Config.ByType {
		shown = kind
	}
	began := time.Now()
	if slices.Contains(told.Stalled, h.Config.ClientID) {
		select {} // a call without a timeout that is never answered
	}
	_, poisoned := header("poison")
	if poisoned && told.Poison == "crash" {
		panic("index out of range in the handler of a record")
	}
	if told.Fails || poisoned && told.Poison != "" {
		h.Page.handled(shown, "retry", time.Since(began))
		return false
	}
	seconds := told.ProcessSeconds[kind] * (1 + told.Jitter*(2*rand.Float64()-1))
	if more, hit := told.Slower[h.Config.ClientID]; hit {
		seconds *= more
	}
	time.Sleep(Duration(seconds))
	h.Page.handled(shown, "ok", time.Since(began))
	return true
}

// Package saramago is a consumer on IBM/sarama: a consumer group's handler, which the library runs in a goroutine for each claim.
package saramago

import (
	"context"
	"errors"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"foreign/team"
)

type handler struct {
	work *team.Handlers

	mu     sync.Mutex
	claims map[int32]sarama.ConsumerGroupClaim
}

// Consume joins the group again each time a session has ended.
func Consume(over context.Context, settings team.Config, work *team.Handlers) {
	config := sarama.NewConfig()
	config.ClientID = settings.ClientID
	config.Version = sarama.V3_6_0_0
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = settings.CommitEvery() // of what was marked
	config.Consumer.Group.Session.Timeout = settings.Session()
	config.Consumer.Group.Heartbeat.Interval = settings.Session() / 6
	if settings.MaxPoll > 0 {
		config.ChannelBufferSize = settings.MaxPoll
	}
	group, err := sarama.NewConsumerGroup([]string{settings.Bootstrap}, settings.Group, config)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for err := range group.Errors() {
			log.Print(err)
		}
	}()
	h := &handler{work: work, claims: map[int32]sarama.ConsumerGroupClaim{}}
	work.Page.Ours.MustRegister(&bridge{registry: config.MetricRegistry, handler: h, topic: settings.Topic})
	go func() {
		for over.Err() == nil {
			time.Sleep(time.Second)
			if broken := work.Behaviour.Get().Paused; len(broken) > 0 { // a circuit breaker that nobody closes again
				group.Pause(map[string][]int32{settings.Topic: broken})
			}
		}
	}()
	for over.Err() == nil {
		if err := group.Consume(over, []string{settings.Topic}, h); err != nil {
			log.Print(err)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				break
			}
			time.Sleep(team.RetryAfter)
		}
	}
	if err := group.Close(); err != nil {
		log.Print(err)
	}
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error {
	h.work.Page.Rebalances.Inc()
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	h.mu.Lock()
	h.claims[claim.Partition()] = claim
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.claims, claim.Partition())
		h.mu.Unlock()
	}()
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			for !h.one(message) { // nothing behind it may be handled before it
				select {
				case <-session.Context().Done():
					return nil
				case <-time.After(team.RetryAfter):
				}
			}
			switch h.work.Behaviour.Get().Commits {
			case "none":
			case "refused": // the broker refuses metadata that is longer than 4096 bytes
				session.MarkMessage(message, strings.Repeat("trace ", 900))
			default:
				session.MarkMessage(message, "")
			}
		}
	}
}

func (h *handler) one(message *sarama.ConsumerMessage) bool {
	return h.work.One(func(name string) (string, bool) {
		for _, it := range message.Headers {
			if string(it.Key) == name {
				return string(it.Value), true
			}
		}
		return "", false
	}, message.Timestamp)
}

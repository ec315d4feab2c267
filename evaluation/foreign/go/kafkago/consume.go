// Package kafkago is a consumer on segmentio/kafka-go: a Reader with a group, FetchMessage and CommitMessages in one loop.
package kafkago

import (
	"context"
	"log"
	"time"

	"github.com/segmentio/kafka-go"

	"foreign/team"
)

const longPoll = 500 * time.Millisecond // the library's default of 10 s would hold up a stop

// Consume handles one record after another.
func Consume(over context.Context, settings team.Config, work *team.Handlers) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{settings.Bootstrap},
		GroupID:           settings.Group,
		Topic:             settings.Topic,
		Dialer:            &kafka.Dialer{ClientID: settings.ClientID, Timeout: 10 * time.Second, DualStack: true},
		QueueCapacity:     settings.MaxPoll, // 0 is the library's 100
		MaxBytes:          10e6,
		MaxWait:           longPoll,
		CommitInterval:    settings.CommitEvery(), // 0 is each commit at once
		SessionTimeout:    settings.Session(),
		HeartbeatInterval: settings.Session() / 6,
		JoinGroupBackoff:  time.Second,
		StartOffset:       kafka.FirstOffset,
		ErrorLogger:       kafka.LoggerFunc(log.Printf),
	})
	go showStats(over, reader, work.Page)
	work.Page.ShowPolls()
	for over.Err() == nil {
		work.Page.Polls(true)
		message, err := reader.FetchMessage(over)
		work.Page.Polls(false)
		if err != nil {
			log.Print(err)
			continue
		}
		for over.Err() == nil && !one(work, message) { // nothing behind it may be handled before it
			time.Sleep(team.RetryAfter)
		}
		if over.Err() != nil || work.Behaviour.Get().Commits == "none" {
			continue
		}
		if err := reader.CommitMessages(over, message); err != nil {
			log.Print(err)
		}
	}
	if err := reader.Close(); err != nil {
		log.Print(err)
	}
}

func one(work *team.Handlers, message kafka.Message) bool {
	return work.One(func(name string) (string, bool) {
		for _, it := range message.Headers {
			if it.Key == name {
				return string(it.Value), true
			}
		}
		return "", false
	}, message.Time)
}

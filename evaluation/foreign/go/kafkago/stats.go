package kafkago

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"foreign/team"
)

// showStats adds up what the Reader counts. Its Stats begin at 0 at each call, so exactly one place may ask for them.
func showStats(over context.Context, reader *kafka.Reader, page *team.Page) {
	fetches := page.Counter("kafka_reader_fetches_total", "Fetches of all partitions.")
	messages := page.Counter("kafka_reader_messages_total", "Messages that were fetched.")
	timeouts := page.Counter("kafka_reader_timeouts_total", "Fetches that timed out.")
	errors := page.Counter("kafka_reader_errors_total", "Errors of the reader.")
	waits := page.Means("kafka_reader_wait_seconds", "Mean wait for the answers to the fetches of the last 10 s.", false)
	var queue atomic.Int64
	page.Gauge("kafka_reader_queue_length", "Messages of all partitions that were fetched and not taken yet.", func() float64 {
		return float64(queue.Load())
	})
	for over.Err() == nil {
		found := reader.Stats()
		queue.Store(found.QueueLength)
		fetches.Add(float64(found.Fetches))
		messages.Add(float64(found.Messages))
		timeouts.Add(float64(found.Timeouts))
		errors.Add(float64(found.Errors))
		page.Rebalances.Add(float64(found.Rebalances))
		if found.WaitTime.Count > 0 {
			waits.Add("all", found.WaitTime.Avg)
		}
		time.Sleep(time.Second)
	}
}

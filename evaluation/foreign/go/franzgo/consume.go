package franzgo

import (
	"context"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"foreign/team"
)

const room = 64 // records of one partition that wait for its goroutine; then the partition is paused

type consumer struct {
	config   team.Config
	handlers *team.Handlers
	metrics  *metrics
	client   *kgo.Client

	mu      sync.Mutex
	done    map[int32]kgo.EpochOffset // not committed yet
	workers map[int32]*worker
}

// one handles a record; false if it cannot be handled.
func (c *consumer) one(record *kgo.Record) bool {
	return c.handlers.One(func(name string) (string, bool) {
		for _, it := range record.Headers {
			if it.Key == name {
				return string(it.Value), true
			}
		}
		return "", false
	}, record.Timestamp)
}

// Consume reads a topic in a poll loop, or with a goroutine for each partition.
func Consume(over context.Context, settings team.Config, work *team.Handlers) {
	shown := newMetrics(work.Page)
	c := &consumer{config: settings, handlers: work, metrics: shown, done: map[int32]kgo.EpochOffset{}, workers: map[int32]*worker{}}
	session := settings.Session()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(settings.Bootstrap),
		kgo.ConsumerGroup(settings.Group),
		kgo.ConsumeTopics(settings.Topic),
		kgo.ClientID(settings.ClientID),
		kgo.SessionTimeout(session),
		kgo.HeartbeatInterval(session/6),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, found map[string][]int32) {
			shown.assigned(found[settings.Topic])
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
			c.revoked(ctx, gone[settings.Topic], true)
		}),
		kgo.OnPartitionsLost(func(ctx context.Context, _ *kgo.Client, gone map[string][]int32) {
			c.revoked(ctx, gone[settings.Topic], false)
		}),
		kgo.WithHooks(shown.kprom, shown),
		kgo.WithLogger(kgo.BasicLogger(log.Writer(), kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		log.Fatal(err)
	}
	c.client = client
	go c.commitNowAndThen(over)
	for over.Err() == nil {
		if broken := work.Behaviour.Get().Paused; len(broken) > 0 { // a circuit breaker that nobody closes again
			client.PauseFetchPartitions(map[string][]int32{settings.Topic: broken})
		}
		work.Page.Polls(true)
		fetches := client.PollRecords(over, settings.MaxPoll) // 0 is all that is buffered
		work.Page.Polls(false)
		fetches.EachError(func(_ string, _ int32, err error) { log.Print(err) })
		if settings.Style == "loop" {
			for _, record := range fetches.Records() {
				for over.Err() == nil && !c.one(record) { // nothing behind it may be handled before it
					time.Sleep(team.RetryAfter)
				}
				if over.Err() != nil {
					break
				}
				c.finished(record)
			}
		} else {
			fetches.EachPartition(func(found kgo.FetchTopicPartition) { c.hand(over, found.Partition, found.Records) })
		}
	}
	c.commit(context.Background())
	client.Close()
}

func (c *consumer) finished(record *kgo.Record) {
	c.mu.Lock()
	c.done[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
	c.mu.Unlock()
}

// worker is the goroutine of one partition. What it has no room for yet waits in `more`, and the partition is paused until it is half empty.
type worker struct {
	records chan *kgo.Record
	quit    chan struct{}
	mu      sync.Mutex
	more    []*kgo.Record
}

func (c *consumer) hand(over context.Context, partition int32, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	c.mu.Lock()
	w := c.workers[partition]
	if w == nil {
		w = &worker{records: make(chan *kgo.Record, room), quit: make(chan struct{})}
		c.workers[partition] = w
		go c.work(over, w, partition)
	}
	c.mu.Unlock()
	w.mu.Lock()
	w.more = append(w.more, records...)
	full := !w.fill()
	w.mu.Unlock()
	if full {
		c.client.PauseFetchPartitions(map[string][]int32{c.config.Topic: {partition}})
	}
}

// fill moves what has waited; false if there is not room for all of it.
func (w *worker) fill() bool {
	for len(w.more) > 0 {
		select {
		case w.records <- w.more[0]:
			w.more = w.more[1:]
		default:
			return false
		}
	}
	return true
}

func (c *consumer) work(over context.Context, w *worker, partition int32) {
	for {
		select {
		case <-w.quit:
			return
		case <-over.Done():
			return
		case record := <-w.records:
			for !c.one(record) {
				select {
				case <-w.quit:
					return
				case <-over.Done():
					return
				case <-time.After(team.RetryAfter):
				}
			}
			select {
			case <-w.quit: // somebody else may have it
				return
			default:
				c.finished(record)
			}
			w.mu.Lock()
			if w.fill() && len(w.records) <= room/2 {
				c.client.ResumeFetchPartitions(map[string][]int32{c.config.Topic: {partition}})
			}
			w.mu.Unlock()
		}
	}
}

func (c *consumer) revoked(ctx context.Context, partitions []int32, mine bool) {
	c.mu.Lock()
	for _, partition := range partitions {
		if w := c.workers[partition]; w != nil {
			close(w.quit)
			delete(c.workers, partition)
		}
	}
	c.mu.Unlock()
	if mine {
		c.commit(ctx)
	}
	c.mu.Lock()
	for _, partition := range partitions {
		delete(c.done, partition)
	}
	c.mu.Unlock()
	c.client.ResumeFetchPartitions(map[string][]int32{c.config.Topic: partitions})
	c.metrics.revoked(partitions)
}

func (c *consumer) commitNowAndThen(over context.Context) {
	for over.Err() == nil {
		time.Sleep(c.config.CommitEvery())
		c.commit(over)
	}
}

func (c *consumer) commit(ctx context.Context) {
	told := c.handlers.Behaviour.Get()
	c.mu.Lock()
	due := c.done
	c.done = map[int32]kgo.EpochOffset{}
	c.mu.Unlock()
	if len(due) == 0 || told.Commits == "none" {
		return
	}
	if told.Commits == "refused" { // the broker refuses metadata that is longer than 4096 bytes
		ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
			note := strings.Repeat("trace ", 900)
			for t := range request.Topics {
				for p := range request.Topics[t].Partitions {
					request.Topics[t].Partitions[p].Metadata = &note
				}
			}
			return nil
		})
	}
	c.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{c.config.Topic: due}, nil)
}

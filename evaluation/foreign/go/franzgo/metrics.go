package franzgo

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"

	"foreign/team"
)

const fetchKey = 1 // Kafka's number of the fetch request

// What the team shows beside kprom, by the client's hooks: what waits in it, and fetches.
type metrics struct {
	page     *team.Page
	kprom    *kprom.Metrics
	buffered *prometheus.GaugeVec
	fetches  *team.Means
	throttle *team.Means

	mu   sync.Mutex
	mine map[int32]bool
}

func newMetrics(page *team.Page) *metrics {
	m := &metrics{page: page, mine: map[int32]bool{}}
	m.kprom = kprom.NewMetrics("kafka", kprom.Registerer(page.Ours), kprom.Gatherer(page.Registry))
	m.buffered = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "events_buffered_records", Help: "Records that were fetched and not polled yet.",
	}, []string{"topic", "partition"})
	page.Ours.MustRegister(m.buffered)
	page.ShowPolls()
	page.Gauge("events_assigned_partitions", "Partitions of this member.", func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return float64(len(m.mine))
	})
	m.fetches = page.Means("events_fetch_latency_seconds", "Mean duration of the fetches of the last 10 s.", false)
	m.throttle = page.Means("events_throttle_seconds", "Mean throttle time of the fetches of the last 10 s.", true)
	return m
}

func (m *metrics) assigned(partitions []int32) {
	m.page.Rebalances.Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range partitions {
		m.mine[it] = true
	}
}

func (m *metrics) revoked(partitions []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range partitions {
		delete(m.mine, it)
	}
}

// The client's hooks.

func (m *metrics) OnFetchRecordBuffered(r *kgo.Record) {
	m.buffered.WithLabelValues(r.Topic, fmt.Sprint(r.Partition)).Inc()
}

func (m *metrics) OnFetchRecordUnbuffered(r *kgo.Record, _ bool) {
	m.buffered.WithLabelValues(r.Topic, fmt.Sprint(r.Partition)).Dec()
}

func (m *metrics) OnBrokerE2E(meta kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key == fetchKey && e2e.Err() == nil {
		m.fetches.Add(name(meta), e2e.DurationE2E())
		m.throttle.Know(name(meta))
	}
}

func (m *metrics) OnBrokerThrottle(meta kgo.BrokerMetadata, interval time.Duration, _ bool) {
	m.throttle.Add(name(meta), interval)
}

func name(meta kgo.BrokerMetadata) string { return net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)) }

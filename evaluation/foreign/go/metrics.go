package main

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

const (
	fetchKey = 1                // Kafka's number of the fetch request
	recent   = 10 * time.Second // averages are of so long
)

// What the team shows beside kprom: its handlers, when it last polled, and by the client's hooks what waits in it, and fetches.
type metrics struct {
	topic    string
	registry *prometheus.Registry
	kprom    *kprom.Metrics

	took       *prometheus.HistogramVec
	counted    *prometheus.CounterVec
	rebalances prometheus.Counter
	buffered   *prometheus.GaugeVec

	mu       sync.Mutex
	mine     map[int32]bool
	inPoll   bool
	polledAt time.Time
	fetches  map[string][]moment
	throttle map[string][]moment

	latencyDesc, throttleDesc *prometheus.Desc
}

type moment struct {
	at      time.Time
	seconds float64
}

func newMetrics(settings config) *metrics {
	m := &metrics{
		topic:    settings.Topic,
		registry: prometheus.NewRegistry(),
		polledAt: time.Now(),
		mine:     map[int32]bool{},
		fetches:  map[string][]moment{},
		throttle: map[string][]moment{},
	}
	who := prometheus.Labels{"group": settings.Group, "client_id": settings.ClientID}
	ours := prometheus.WrapRegistererWith(who, m.registry)
	ours.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	m.kprom = kprom.NewMetrics("kafka", kprom.Registerer(ours), kprom.Gatherer(m.registry))
	m.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "events_handler_duration_seconds", Help: "Duration of a handler.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
	}, []string{"topic", "event_type"})
	m.counted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "events_handled_total", Help: "Attempts that have ended.",
	}, []string{"topic", "event_type", "outcome"})
	m.rebalances = prometheus.NewCounter(prometheus.CounterOpts{Name: "events_assignments_total", Help: "Assignments of this member."})
	m.buffered = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "events_buffered_records", Help: "Records that were fetched and not polled yet.",
	}, []string{"topic", "partition"})
	owned := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "events_assigned_partitions", Help: "Partitions of this member."},
		func() float64 { m.mu.Lock(); defer m.mu.Unlock(); return float64(len(m.mine)) })
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "events_poll_age_seconds", Help: "Time since the last poll; 0 in a poll."}, m.pollAge)
	m.latencyDesc = prometheus.NewDesc("events_fetch_latency_seconds", "Mean duration of the fetches of the last 10 s.", []string{"broker"}, nil)
	m.throttleDesc = prometheus.NewDesc("events_throttle_seconds", "Mean throttle time of the fetches of the last 10 s.", []string{"broker"}, nil)
	ours.MustRegister(m.took, m.counted, m.rebalances, m.buffered, owned, age, m)
	return m
}

func (m *metrics) handled(kind, outcome string, took time.Duration) {
	m.took.WithLabelValues(m.topic, kind).Observe(took.Seconds())
	m.counted.WithLabelValues(m.topic, kind, outcome).Inc()
}

func (m *metrics) assigned(partitions []int32) {
	m.rebalances.Inc()
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

func (m *metrics) pollAge() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inPoll {
		return 0
	}
	return time.Since(m.polledAt).Seconds()
}

// polls marks the begin and the end of a poll.
func (m *metrics) polls(begins bool) {
	m.mu.Lock()
	m.inPoll, m.polledAt = begins, time.Now()
	m.mu.Unlock()
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
		m.add(m.fetches, meta, e2e.DurationE2E())
	}
}

func (m *metrics) OnBrokerThrottle(meta kgo.BrokerMetadata, interval time.Duration, _ bool) {
	m.add(m.throttle, meta, interval)
}

func (m *metrics) add(to map[string][]moment, meta kgo.BrokerMetadata, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	broker := net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port))
	to[broker] = append(lately(to[broker]), moment{time.Now(), took.Seconds()})
}

func lately(found []moment) []moment {
	for len(found) > 0 && time.Since(found[0].at) > recent {
		found = found[1:]
	}
	return found
}

func total(found []moment) (sum float64) {
	for _, it := range found {
		sum += it.seconds
	}
	return sum
}

func (m *metrics) Describe(to chan<- *prometheus.Desc) { to <- m.latencyDesc; to <- m.throttleDesc }

func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for broker, found := range m.fetches {
		m.fetches[broker], m.throttle[broker] = lately(found), lately(m.throttle[broker])
		count := float64(max(1, len(m.fetches[broker])))
		if len(m.fetches[broker]) > 0 {
			to <- prometheus.MustNewConstMetric(m.latencyDesc, prometheus.GaugeValue, total(m.fetches[broker])/count, broker)
		}
		to <- prometheus.MustNewConstMetric(m.throttleDesc, prometheus.GaugeValue, total(m.throttle[broker])/count, broker)
	}
}

package team

import (
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const recent = 10 * time.Second // averages are of so long

// Page is what the team shows of its handlers; each library adds what it tells.
type Page struct {
	Registry   *prometheus.Registry
	Ours       prometheus.Registerer // with the labels that say who it is
	Rebalances prometheus.Counter

	topic   string
	took    *prometheus.HistogramVec
	counted *prometheus.CounterVec

	mu       sync.Mutex
	inPoll   bool
	polledAt time.Time
}

func NewPage(settings Config) *Page {
	p := &Page{Registry: prometheus.NewRegistry(), topic: settings.Topic, polledAt: time.Now()}
	who := prometheus.Labels{"group": settings.Group, "client_id": settings.ClientID}
	p.Ours = prometheus.WrapRegistererWith(who, p.Registry)
	p.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "events_handler_duration_seconds", Help: "Duration of a handler.", Buckets: prometheus.ExponentialBuckets(0.002, 2, 14),
	}, []string{"topic", "event_type"})
	p.counted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "events_handled_total", Help: "Attempts that have ended.",
	}, []string{"topic", "event_type", "outcome"})
	p.Rebalances = prometheus.NewCounter(prometheus.CounterOpts{Name: "events_assignments_total", Help: "Assignments of this member."})
	p.Ours.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	p.Ours.MustRegister(p.took, p.counted, p.Rebalances)
	return p
}

func (p *Page) Serve(port string) {
	http.Handle("/metrics", promhttp.HandlerFor(p.Registry, promhttp.HandlerOpts{}))
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:"+port, nil)) }()
}

func (p *Page) handled(kind, outcome string, took time.Duration) {
	p.took.WithLabelValues(p.topic, kind).Observe(took.Seconds())
	p.counted.WithLabelValues(p.topic, kind, outcome).Inc()
}

// ShowPolls adds the age of the last poll, of consumers that have a loop.
func (p *Page) ShowPolls() {
	p.Gauge("events_poll_age_seconds", "Time since the last poll; 0 in a poll.", func() float64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.inPoll {
			return 0
		}
		return time.Since(p.polledAt).Seconds()
	})
}

// Polls marks the begin and the end of a poll.
func (p *Page) Polls(begins bool) {
	p.mu.Lock()
	p.inPoll, p.polledAt = begins, time.Now()
	p.mu.Unlock()
}

func (p *Page) Gauge(name, help string, value func() float64) {
	p.Ours.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

func (p *Page) Counter(name, help string) prometheus.Counter {
	it := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	p.Ours.MustRegister(it)
	return it
}

// Means are of the last 10 s, by broker. Without a request lately there is none, unless that itself says something.
type Means struct {
	desc    *prometheus.Desc
	orZero  bool
	mu      sync.Mutex
	moments map[string][]moment
}

type moment struct {
	at      time.Time
	seconds float64
}

func (p *Page) Means(name, help string, orZero bool) *Means {
	m := &Means{desc: prometheus.NewDesc(name, help, []string{"broker"}, nil), orZero: orZero, moments: map[string][]moment{}}
	p.Ours.MustRegister(m)
	return m
}

func (m *Means) Add(broker string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moments[broker] = append(lately(m.moments[broker]), moment{time.Now(), took.Seconds()})
}

// Know lets a broker be told of that has not been added to.
func (m *Means) Know(broker string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moments[broker] = lately(m.moments[broker])
}

func lately(found []moment) []moment {
	for len(found) > 0 && time.Since(found[0].at) > recent {
		found = found[1:]
	}
	return found
}

func (m *Means) Describe(to chan<- *prometheus.Desc) { to <- m.desc }

func (m *Means) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for broker, found := range m.moments {
		m.moments[broker] = lately(found)
		sum := 0.0
		for _, it := range m.moments[broker] {
			sum += it.seconds
		}
		if count := len(m.moments[broker]); count > 0 || m.orZero {
			to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, sum/float64(max(1, count)), broker)
		}
	}
}

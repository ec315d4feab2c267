package saramago

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rcrowley/go-metrics"
)

// bridge shows sarama's go-metrics, and what waits in each claim.
//
// A histogram of go-metrics forgets over minutes, so each look begins it anew: its mean is of the time since the look before.
type bridge struct {
	registry metrics.Registry
	handler  *handler
	topic    string
}

func (b *bridge) Describe(chan<- *prometheus.Desc) {}

func (b *bridge) Collect(to chan<- prometheus.Metric) {
	b.registry.Each(func(name string, it any) {
		base, broker, _ := strings.Cut(name, "-for-broker-")
		base = "sarama_" + strings.ReplaceAll(base, "-", "_")
		if strings.Contains(name, "-for-topic-") || strings.HasPrefix(name, "consumer-group-") || strings.HasPrefix(name, "protocol-requests-") {
			return // with names in the name
		}
		if broker == "" {
			broker = "all"
		}
		tell := func(suffix string, kind prometheus.ValueType, value float64) {
			desc := prometheus.NewDesc(base+suffix, "By sarama.", []string{"broker"}, nil)
			to <- prometheus.MustNewConstMetric(desc, kind, value, broker)
		}
		switch found := it.(type) {
		case metrics.Meter:
			tell("_total", prometheus.CounterValue, float64(found.Count()))
		case metrics.Counter:
			tell("", prometheus.GaugeValue, float64(found.Count()))
		case metrics.Histogram:
			tell("_mean", prometheus.GaugeValue, found.Mean()) // 0 without any
			found.Clear()
		}
	})
	b.handler.mu.Lock()
	defer b.handler.mu.Unlock()
	waits := prometheus.NewDesc("events_claimed_records", "Records that wait for the goroutine of a claim.", []string{"topic", "partition"}, nil)
	for partition, claim := range b.handler.claims {
		to <- prometheus.MustNewConstMetric(waits, prometheus.GaugeValue, float64(len(claim.Messages())), b.topic, strconv.Itoa(int(partition)))
	}
}

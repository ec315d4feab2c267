// A consumer of the lab on Watermill: a router with one handler and Watermill's own Prometheus metrics, as its documents have it.
//
// Arguments: CONFIG.json BEHAVIOUR.json ADDRESS.json; the last is written when it is up.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/components/metrics"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type config struct {
	ClientID    string `json:"client_id"`
	MetricsPort int    `json:"metrics_port"`
	Bootstrap   string `json:"bootstrap"`
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	Named       bool   `json:"named"`        // whether the client is called after the instance; else "watermill", as by default
	Namespace   string `json:"namespace"`    // of its metrics; empty: none
	PoisonQueue string `json:"poison_queue"` // topic for records that fail; empty: they are sent to the handler again
	Retries     int    `json:"retries"`      // of the middleware Retry
	SessionMs   int    `json:"session_ms"`
	HeartbeatMs int    `json:"heartbeat_ms"`
}

type behaviour struct {
	ProcessSeconds map[string]float64 `json:"process_seconds"`
	Jitter         float64            `json:"jitter"`
	PoisonFails    bool               `json:"poison_fails"`
	DeadShare      map[string]float64 `json:"dead_share"`
	StallMembers   []string           `json:"stall_members"`
	StallSeconds   float64            `json:"stall_seconds"`
}

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// watch reads the behaviour again and again.
func watch(path string) *atomic.Pointer[behaviour] {
	var now atomic.Pointer[behaviour]
	first := &behaviour{}
	must(read(path, first))
	now.Store(first)
	go func() {
		for {
			time.Sleep(200 * time.Millisecond)
			next := &behaviour{}
			if read(path, next) == nil { // else it is half written
				now.Store(next)
			}
		}
	}()
	return &now
}

func main() {
	var its config
	must(read(os.Args[1], &its))
	now := watch(os.Args[2])
	handle := func(msg *message.Message) error {
		b, kind := now.Load(), msg.Metadata.Get("event_type")
		if slices.Contains(b.StallMembers, its.ClientID) {
			time.Sleep(time.Duration(b.StallSeconds * 1e9))
		}
		if b.PoisonFails && msg.Metadata.Get("poison") != "" {
			return errors.New("this record cannot be handled")
		}
		time.Sleep(time.Duration(b.ProcessSeconds[kind] * (1 - b.Jitter + 2*b.Jitter*rand.Float64()) * 1e9))
		if rand.Float64() < b.DeadShare[kind] {
			return errors.New("this record is given up")
		}
		return nil
	}

	logger := watermill.NewStdLogger(false, false)
	settings := kafka.DefaultSaramaSubscriberConfig()
	settings.Consumer.Offsets.Initial = sarama.OffsetOldest
	settings.Consumer.Group.Session.Timeout = time.Duration(its.SessionMs) * time.Millisecond
	settings.Consumer.Group.Heartbeat.Interval = time.Duration(its.HeartbeatMs) * time.Millisecond
	settings.Metadata.RefreshFrequency = 5 * time.Second
	if its.Named {
		settings.ClientID = its.ClientID
	}
	brokers := []string{its.Bootstrap}
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: brokers, Unmarshaler: kafka.DefaultMarshaler{}, OverwriteSaramaConfig: settings, ConsumerGroup: its.Group,
	}, logger)
	must(err)
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	must(err)
	registry := prometheus.NewRegistry()
	builder := metrics.NewPrometheusMetricsBuilder(registry, its.Namespace, "")
	builder.AddPrometheusRouterMetrics(router)
	if its.PoisonQueue != "" {
		publisher, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: brokers, Marshaler: kafka.DefaultMarshaler{}}, logger)
		must(err)
		queue, err := middleware.PoisonQueue(publisher, its.PoisonQueue)
		must(err)
		router.AddMiddleware(queue)
	}
	if its.Retries > 0 {
		router.AddMiddleware(middleware.Retry{MaxRetries: its.Retries, InitialInterval: 100 * time.Millisecond}.Middleware)
	}
	router.AddMiddleware(middleware.Recoverer)
	router.AddNoPublisherHandler("orders", its.Topic, subscriber, handle)

	page := http.NewServeMux()
	page.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	address := fmt.Sprintf("127.0.0.1:%d", its.MetricsPort)
	go func() { must(http.ListenAndServe(address, page)) }()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go func() {
		<-router.Running()
		part := os.Args[3] + ".part"
		must(os.WriteFile(part, []byte(fmt.Sprintf(`{"metrics": %q}`, address)), 0o644))
		must(os.Rename(part, os.Args[3]))
	}()
	must(router.Run(ctx))
}

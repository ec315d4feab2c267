// Consumers as a team would write them: a poll loop, or a goroutine for each partition, with a page of their own.
//
//	foreign CONFIG.json BEHAVIOUR.json
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"foreign/franzgo"
	"foreign/kafkago"
	"foreign/saramago"
	"foreign/team"
)

var libraries = map[string]func(context.Context, team.Config, *team.Handlers){
	"franz_go": franzgo.Consume,
	"kafka_go": kafkago.Consume,
	"sarama":   saramago.Consume,
}

func main() {
	if os.Args[1] == "quota" {
		franzgo.Limit(os.Args[2], os.Args[3], os.Args[4:])
		return
	}
	settings, err := team.Read[team.Config](os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	behaviour, err := team.Follow(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	page := team.NewPage(settings)
	page.Serve(settings.MetricsPort)
	over, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	libraries[settings.Library](over, settings, &team.Handlers{Config: settings, Behaviour: behaviour, Page: page})
}

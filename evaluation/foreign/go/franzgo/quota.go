package franzgo

import (
	"context"
	"log"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limit sets what a client may fetch: `foreign quota BOOTSTRAP BYTES_PER_SECOND CLIENT_ID...`. Kafka's own tool needs a JVM for each.
func Limit(bootstrap, bytes string, clients []string) {
	rate, err := strconv.ParseFloat(bytes, 64)
	if err != nil {
		log.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	request := kmsg.NewPtrAlterClientQuotasRequest()
	for _, name := range clients {
		entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
		entity.Type, entity.Name = "client-id", kmsg.StringPtr(name)
		change := kmsg.NewAlterClientQuotasRequestEntryOp()
		change.Key, change.Value = "consumer_byte_rate", rate
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		entry.Entity = append(entry.Entity, entity)
		entry.Ops = append(entry.Ops, change)
		request.Entries = append(request.Entries, entry)
	}
	answer, err := request.RequestWith(context.Background(), client)
	if err != nil {
		log.Fatal(err)
	}
	for _, it := range answer.Entries {
		if it.ErrorCode != 0 {
			log.Fatalf("error %d", it.ErrorCode)
		}
	}
}

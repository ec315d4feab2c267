import com.fasterxml.jackson.databind.JsonNode;
import io.micrometer.core.instrument.binder.kafka.KafkaClientMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.receiver.ReceiverRecord;
import reactor.util.retry.Retry;

/** A receiver of Reactor Kafka: records are handled some at a time, and acknowledged. Its page has the meters of its client alone. */
public final class LabReactor {
    private static LabHandler handler;

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", handler.text("bootstrap"));
        settings.put("group.id", handler.text("group"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        if (handler.config.get("named").asBoolean()) settings.put("client.id", handler.text("client_id"));
        for (Map.Entry<String, JsonNode> entry : handler.config.get("kafka").properties()) {
            settings.put(entry.getKey(), entry.getValue().asText());
        }
        ReceiverOptions<byte[], byte[]> options = ReceiverOptions.<byte[], byte[]>create(settings)
            .subscription(List.of(handler.text("topic")))
            .commitInterval(Duration.ofSeconds(1))
            .consumerListener(new ReceiverOptions.ConsumerListener() {
                private final Map<String, KafkaClientMetrics> bound = new HashMap<>();

                @Override
                public void consumerAdded(String id, Consumer<?, ?> consumer) {
                    KafkaClientMetrics meters = new KafkaClientMetrics(consumer, List.of(), new Hasty());
                    meters.bindTo(registry);
                    bound.put(id, meters);
                }

                @Override
                public void consumerRemoved(String id, Consumer<?, ?> consumer) {
                    bound.remove(id).close();
                }
            });
        int threads = handler.config.get("threads").asInt();
        Scheduler pool = Schedulers.newBoundedElastic(threads, Integer.MAX_VALUE, "handlers");
        Flux<ReceiverRecord<byte[], byte[]>> handled = KafkaReceiver.create(options).receive()
            .flatMapSequential(record -> Mono.fromCallable(() -> {
                handler.handle(record.headers(), handler.text("errors").equals("retry"));
                return record;
            }).subscribeOn(pool), threads)
            .doOnNext(record -> record.receiverOffset().acknowledge());
        if (handler.text("errors").equals("restart")) handled = handled.retryWhen(Retry.backoff(Long.MAX_VALUE, Duration.ofSeconds(1)).maxBackoff(Duration.ofSeconds(5)));
        handled.subscribe(record -> { }, failed -> System.err.println("stream ended: " + failed));
        handler.announce(registry::scrape);
        Thread.currentThread().join();
    }
}

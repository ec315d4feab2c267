import com.fasterxml.jackson.databind.JsonNode;
import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import io.micrometer.core.instrument.binder.kafka.KafkaClientMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Confluent's Parallel Consumer with Micrometer: its own meters, and those of its Kafka client. A record that fails is tried again. */
public final class LabParallel {
    private static LabHandler handler;

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", handler.text("bootstrap"));
        settings.put("group.id", handler.text("group"));
        settings.put("client.id", handler.text("client_id"));
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (Map.Entry<String, JsonNode> entry : handler.config.get("kafka").properties()) {
            settings.put(entry.getKey(), entry.getValue().asText());
        }
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        new KafkaClientMetrics(consumer, List.of(), new Hasty()).bindTo(registry);
        ParallelConsumerOptions.ParallelConsumerOptionsBuilder<byte[], byte[]> options =
            ParallelConsumerOptions.<byte[], byte[]>builder()
                .consumer(consumer)
                .ordering(ProcessingOrder.valueOf(handler.text("ordering")))
                .maxConcurrency(handler.config.get("threads").asInt())
                .commitInterval(Duration.ofSeconds(1))
                .meterRegistry(registry);
        if (!handler.text("instance_tag").isEmpty()) options.pcInstanceTag(handler.text("instance_tag"));
        ParallelStreamProcessor<byte[], byte[]> processor = ParallelStreamProcessor.createEosStreamProcessor(options.build());
        processor.subscribe(List.of(handler.text("topic")));
        processor.poll(context -> handler.handle(context.getSingleConsumerRecord().headers()));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> processor.closeDontDrainFirst(Duration.ofSeconds(4))));
        handler.announce(registry::scrape);
        boolean paused = false;
        while (true) {
            boolean wanted = handler.isHeld();
            if (wanted && !paused) processor.pauseIfRunning();
            if (!wanted && paused) processor.resumeIfPaused();
            paused = wanted;
            Thread.sleep(200);
        }
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;

/** A Kafka Streams application of the lab: one thread, one processor. Its group is the application's id. */
public final class LabStreams {
    private LabStreams() {}

    public static void main(String[] args) throws Exception {
        LabHandler handler = new LabHandler(args);
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, handler.text("group"));
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, handler.text("bootstrap"));
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, handler.text("client_id"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, handler.folder().resolve("state-" + handler.text("client_id")).toString());
        settings.put("auto.offset.reset", "earliest");
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "1000"); // by default 30 s; a lab compresses time
        for (Map.Entry<String, JsonNode> entry : handler.config.get("kafka").properties()) {
            settings.put(entry.getKey(), entry.getValue().asText());
        }
        ProcessorSupplier<byte[], byte[], Void, Void> work = () -> new Processor<>() {
            @Override
            public void process(Record<byte[], byte[]> record) {
                handler.work(LabHandler.type(record.headers()));
            }
        };
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(handler.text("topic"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).process(work);
        KafkaStreams application = new KafkaStreams(builder.build(), settings);
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            application.close(Duration.ofSeconds(5));
            ended.countDown();
        }));
        application.start();
        handler.announce();
        ended.await();
    }
}

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.pekko.NotUsed;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.kafka.CommitterSettings;
import org.apache.pekko.kafka.ConsumerMessage.CommittableOffset;
import org.apache.pekko.kafka.ConsumerSettings;
import org.apache.pekko.kafka.Subscriptions;
import org.apache.pekko.kafka.javadsl.Committer;
import org.apache.pekko.kafka.javadsl.Consumer;
import org.apache.pekko.stream.RestartSettings;
import org.apache.pekko.stream.javadsl.RestartSource;
import org.apache.pekko.stream.javadsl.Source;

/** A stream of Pekko Connectors Kafka: records are handled some at a time, and committed in order. It has no page of its own. */
public final class LabPekko {
    private static LabHandler handler;

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        ActorSystem system = ActorSystem.create("lab");
        ConsumerSettings<byte[], byte[]> settings = ConsumerSettings.create(system, new ByteArrayDeserializer(), new ByteArrayDeserializer())
            .withBootstrapServers(handler.text("bootstrap"))
            .withGroupId(handler.text("group"))
            .withStopTimeout(Duration.ofSeconds(2)) // by default its client stays for 30 s after its stream has ended
            .withProperty(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        if (handler.config.get("named").asBoolean()) settings = settings.withClientId(handler.text("client_id"));
        for (Map.Entry<String, com.fasterxml.jackson.databind.JsonNode> entry : handler.config.get("kafka").properties()) {
            settings = settings.withProperty(entry.getKey(), entry.getValue().asText());
        }
        ConsumerSettings<byte[], byte[]> chosen = settings;
        int threads = handler.config.get("threads").asInt();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        CommitterSettings commits = CommitterSettings.create(system).withMaxInterval(Duration.ofSeconds(1));
        Source<CommittableOffset, NotUsed> handled = handler.text("errors").equals("restart")
            ? RestartSource.onFailuresWithBackoff(
                RestartSettings.create(Duration.ofSeconds(1), Duration.ofSeconds(5), 0.2), () -> read(chosen, threads, pool))
            : read(chosen, threads, pool).mapMaterializedValue(control -> NotUsed.getInstance());
        handled.runWith(Committer.sink(commits), system).whenComplete((done, failed) -> System.err.println("stream ended: " + failed));
        handler.announce();
    }

    private static Source<CommittableOffset, Consumer.Control> read(
            ConsumerSettings<byte[], byte[]> settings, int threads, ExecutorService pool) {
        return Consumer.committableSource(settings, Subscriptions.topics(handler.text("topic")))
            .mapAsync(threads, message -> CompletableFuture.supplyAsync(() -> {
                handler.handle(message.record().headers(), handler.text("errors").equals("retry"));
                return message.committableOffset();
            }, pool));
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import io.micrometer.core.instrument.Metrics;
import io.micrometer.core.instrument.binder.kafka.KafkaClientMetrics;
import io.micrometer.prometheus.PrometheusMeterRegistry;
import io.quarkus.runtime.Quarkus;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.QuarkusMain;
import io.smallrye.common.annotation.Blocking;
import io.smallrye.reactive.messaging.ChannelRegistry;
import io.smallrye.reactive.messaging.PausableChannel;
import io.smallrye.reactive.messaging.providers.extension.HealthCenter;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.event.Observes;
import jakarta.inject.Inject;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.eclipse.microprofile.reactive.messaging.Incoming;

/** A Quarkus application of the lab: one channel of SmallRye Reactive Messaging, in order, in a pool, or in batches. */
@QuarkusMain
public class LabQuarkus implements QuarkusApplication {
    private static LabHandler handler;

    @Inject
    PrometheusMeterRegistry registry;

    @Inject
    ChannelRegistry channels;

    @Inject
    HealthCenter health;

    /** The methods of the channels, of which the settings enable one. */
    @ApplicationScoped
    public static class Takers {
        /** One by one. */
        @Incoming("orders")
        @Blocking
        public void one(ConsumerRecord<byte[], byte[]> record) {
            take(record);
        }

        /** Several at once. */
        @Incoming("orders-pool")
        @io.smallrye.reactive.messaging.annotations.Blocking(value = "orders-workers", ordered = false)
        public void any(ConsumerRecord<byte[], byte[]> record) {
            take(record);
        }

        /** What a poll brings. */
        @Incoming("orders-batch")
        @Blocking
        public void all(ConsumerRecords<byte[], byte[]> records) {
            for (ConsumerRecord<byte[], byte[]> record : records) take(record);
        }
    }

    /** Quarkus' own binding looks once a minute for new meters of a client, and is switched off here. A lab compresses time. */
    @ApplicationScoped
    public static class HastyMeters {
        void created(@Observes Consumer<?, ?> consumer) {
            new KafkaClientMetrics(consumer, List.of(), new Hasty()).bindTo(Metrics.globalRegistry);
        }
    }

    /** Handles a record, and gives some up. */
    private static void take(ConsumerRecord<byte[], byte[]> record) {
        if (handler.handle(record.headers(), handler.config.get("patient").asBoolean())) giveUp(record);
    }

    /** Fails by chance, with the share of its type. */
    private static void giveUp(ConsumerRecord<byte[], byte[]> record) {
        JsonNode share = handler.behaviour().get("dead_share").get(LabHandler.type(record.headers()));
        if (share != null && Math.random() < share.asDouble()) throw new IllegalArgumentException("this record is given up");
    }

    /** The page, and the channel's pause. */
    @Override
    public int run(String... arguments) throws Exception {
        handler.announce(registry::scrape);
        Thread watch = new Thread(this::hold, "hold");
        watch.setDaemon(true);
        watch.start();
        Quarkus.waitForExit();
        return 0;
    }

    private void hold() {
        PausableChannel channel = channels.getPausable(handler.text("channel"));
        while (true) {
            boolean wanted = handler.isHeld();
            if (wanted && !channel.isPaused()) channel.pause();
            if (!wanted && channel.isPaused()) channel.resume();
            if (handler.config.get("probed").asBoolean() && !health.getLiveness().isOk()) Quarkus.asyncExit(1);
            try {
                Thread.sleep(200);
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        for (Map.Entry<String, JsonNode> entry : handler.config.get("quarkus").properties()) {
            System.setProperty(entry.getKey(), entry.getValue().asText());
        }
        Quarkus.run(LabQuarkus.class, args);
    }
}

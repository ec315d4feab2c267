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
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
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

    private static final class Hasty extends ScheduledThreadPoolExecutor {
        Hasty() {
            super(1, task -> {
                Thread made = new Thread(task, "hasty");
                made.setDaemon(true);
                return made;
            });
        }

        @Override
        public ScheduledFuture<?> scheduleAtFixedRate(Runnable task, long first, long period, TimeUnit unit) {
            long brief = unit.toMillis(period) / 15;
            return super.scheduleAtFixedRate(task, brief, brief, TimeUnit.MILLISECONDS);
        }
    }

    /** Handles a record; with patience, tries one that fails every second. */
    private static void take(ConsumerRecord<byte[], byte[]> record) {
        while (true) {
            try {
                handler.handle(record.headers());
                giveUp(record);
                return;
            } catch (IllegalStateException fails) {
                if (!handler.config.get("patient").asBoolean()) throw fails;
            }
            try {
                Thread.sleep(1000);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
                return;
            }
        }
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
            boolean wanted = false;
            for (JsonNode member : handler.behaviour().get("held_members")) wanted |= member.asText().equals(handler.text("client_id"));
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

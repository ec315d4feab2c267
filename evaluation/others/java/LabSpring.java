import com.fasterxml.jackson.databind.JsonNode;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ScheduledFuture;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.KafkaListenerEndpointRegistry;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.core.MicrometerConsumerListener;
import org.springframework.kafka.listener.BatchListenerFailedException;
import org.springframework.kafka.listener.CommonErrorHandler;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.MessageListenerContainer;
import org.springframework.kafka.support.Acknowledgment;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A Spring Boot application of the lab, with one listener. Its page is what Spring and Micrometer show; Boot's properties, among them
 * the listener's concurrency, kind and acknowledgements, come with its settings.
 */
@SpringBootConfiguration
@EnableAutoConfiguration
@Import({LabSpring.OneByOne.class, LabSpring.Manual.class, LabSpring.Batches.class})
public class LabSpring {
    private static final int MEGABYTE = 1 << 20;
    private static LabHandler handler;
    private static byte[][] kept = {};
    private static volatile byte[] garbage;

    private static void handle(ConsumerRecord<byte[], byte[]> record) {
        JsonNode now = handler.behaviour();
        litter(now.get("kept_megabytes").asInt());
        handler.handle(record.headers());
        JsonNode share = now.get("dead_share").get(LabHandler.type(record.headers()));
        // By the record, so that it fails again when it is tried again.
        if (share != null && new Random(record.offset() * 31 + record.partition()).nextDouble() < share.asDouble()) {
            throw new IllegalArgumentException("this record is given up");
        }
    }

    /** Little room is left beside what is kept, so that garbage is collected again and again. */
    private static synchronized void litter(int megabytes) {
        if (megabytes == 0) return;
        if (kept.length != megabytes) {
            kept = new byte[megabytes][];
            for (int at = 0; at < megabytes; at++) kept[at] = new byte[MEGABYTE];
        }
        garbage = new byte[2 * MEGABYTE];
    }

    /** A listener that takes record by record. */
    @Configuration
    @ConditionalOnProperty(name = "lab.kind", havingValue = "record")
    static class OneByOne {
        @KafkaListener(id = "${lab.listener}", topics = "${lab.topic}", idIsGroup = false)
        void take(ConsumerRecord<byte[], byte[]> record) {
            handle(record);
        }
    }

    /** One that acknowledges each record itself. */
    @Configuration
    @ConditionalOnProperty(name = "lab.kind", havingValue = "manual")
    static class Manual {
        @KafkaListener(id = "${lab.listener}", topics = "${lab.topic}", idIsGroup = false)
        void take(ConsumerRecord<byte[], byte[]> record, Acknowledgment done) {
            handle(record);
            done.acknowledge();
        }
    }

    /** One that takes what a poll brings. */
    @Configuration
    @ConditionalOnProperty(name = "lab.kind", havingValue = "batch")
    static class Batches {
        @KafkaListener(id = "${lab.listener}", topics = "${lab.topic}", idIsGroup = false, batch = "true")
        void take(List<ConsumerRecord<byte[], byte[]>> records) {
            for (ConsumerRecord<byte[], byte[]> record : records) {
                try {
                    handle(record);
                } catch (RuntimeException fails) {
                    throw new BatchListenerFailedException("one of a batch", fails, record);
                }
            }
        }
    }

    /** A record that fails is tried again every second, for ever. */
    @Bean
    @ConditionalOnProperty(name = "lab.errors", havingValue = "backoff")
    CommonErrorHandler patient() {
        return new DefaultErrorHandler(new FixedBackOff(1000L, FixedBackOff.UNLIMITED_ATTEMPTS));
    }

    /** It is tried three times, and sent to the dead letters. */
    @Bean
    @ConditionalOnProperty(name = "lab.errors", havingValue = "dlt")
    CommonErrorHandler letters(KafkaTemplate<Object, Object> template) {
        return new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template), new FixedBackOff(0L, 2L));
    }

    /** Micrometer looks once a minute for new meters of a client, those of its partitions among them. A lab compresses time. */
    @Bean
    SmartInitializingSingleton hasty(DefaultKafkaConsumerFactory<Object, Object> consumers, PrometheusMeterRegistry registry) {
        ThreadPoolTaskScheduler scheduler = new ThreadPoolTaskScheduler() {
            @Override
            public ScheduledFuture<?> scheduleAtFixedRate(Runnable task, Instant start, Duration period) {
                Duration brief = period.dividedBy(15);
                return super.scheduleAtFixedRate(task, Instant.now().plus(brief), brief);
            }
        };
        scheduler.setDaemon(true);
        scheduler.initialize();
        return () -> {
            List.copyOf(consumers.getListeners()).forEach(consumers::removeListener);
            consumers.addListener(new MicrometerConsumerListener<>(registry, scheduler));
        };
    }

    /** When all is up: the page, and the container's pause, which is asked for while it runs. */
    @Bean
    ApplicationRunner announced(
            PrometheusMeterRegistry registry, KafkaListenerEndpointRegistry listeners, @Value("${lab.listener}") String id) {
        return arguments -> {
            handler.announce(registry::scrape);
            Thread watch = new Thread(() -> hold(listeners.getListenerContainer(id)), "hold");
            watch.setDaemon(true);
            watch.start();
        };
    }

    private static void hold(MessageListenerContainer container) {
        while (true) {
            boolean wanted = handler.isHeld();
            if (wanted && !container.isPauseRequested()) container.pause();
            if (!wanted && container.isPauseRequested()) container.resume();
            try {
                Thread.sleep(200);
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        Map<String, Object> settings = new HashMap<>();
        for (Map.Entry<String, JsonNode> entry : handler.config.get("spring").properties()) {
            settings.put(entry.getKey(), entry.getValue().asText());
        }
        SpringApplication application = new SpringApplication(LabSpring.class);
        application.setDefaultProperties(settings);
        application.run();
    }
}

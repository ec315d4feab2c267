import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A Java consumer of the lab, as a listener container runs one: it polls a batch, handles record by record on the polling thread,
 * and commits when the batch is done. A record that fails is read again after a second; the other partitions go on meanwhile.
 *
 * <p>Arguments: CONFIG.json BEHAVIOUR.json ADDRESS.json; the last is written when it is up. Its page has the listener's timer under the
 * names of Spring for Apache Kafka with Micrometer's Prometheus registry: count, sum and the maximum of the last two minutes. What the
 * Kafka client measures is left to the JMX agent that the process is started with.
 */
public final class LabConsumer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long RETRY_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final int MAXIMUM_SECONDS = 120;

    private final JsonNode config;
    private final Path behaviourFile;
    private final String name;
    private final Random random = new Random();
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> done = new HashMap<>();
    private final Map<TopicPartition, Long> resumeAt = new HashMap<>();
    private final Timer fine = new Timer("success", "none");
    private final Timer failed = new Timer("failure", "ListenerExecutionFailedException");
    private volatile JsonNode behaviour;
    private volatile boolean over;
    private boolean held;

    private LabConsumer(JsonNode config, Path behaviourFile) throws Exception {
        this.config = config;
        this.behaviourFile = behaviourFile;
        this.name = config.get("client_id").asText();
        this.behaviour = JSON.readTree(behaviourFile.toFile());
        Properties settings = new Properties();
        settings.put("bootstrap.servers", config.get("bootstrap").asText());
        settings.put("group.id", config.get("group").asText());
        settings.put("client.id", name);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (Map.Entry<String, JsonNode> entry : config.get("kafka").properties()) {
            settings.put(entry.getKey(), entry.getValue().asText());
        }
        this.consumer = new KafkaConsumer<>(settings);
    }

    /** What Micrometer's timer counts, for one outcome. */
    private static final class Timer {
        private final String result;
        private final String exception;
        private final ArrayDeque<double[]> latest = new ArrayDeque<>();
        private long count;
        private double sum;

        Timer(String result, String exception) {
            this.result = result;
            this.exception = exception;
        }

        synchronized void took(double seconds) {
            count++;
            sum += seconds;
            double now = System.nanoTime() / 1e9;
            while (!latest.isEmpty() && latest.peekLast()[1] <= seconds) latest.removeLast();
            latest.addLast(new double[] {now, seconds});
        }

        synchronized String show(String listener) {
            if (count == 0) return "";
            double oldest = System.nanoTime() / 1e9 - MAXIMUM_SECONDS;
            while (!latest.isEmpty() && latest.peekFirst()[0] < oldest) latest.removeFirst();
            String labels = "{exception=\"" + exception + "\",name=\"" + listener + "\",result=\"" + result + "\"} ";
            double greatest = latest.isEmpty() ? 0.0 : latest.peekFirst()[1];
            return "spring_kafka_listener_seconds_count" + labels + count + "\nspring_kafka_listener_seconds_sum" + labels + sum
                + "\nspring_kafka_listener_seconds_max" + labels + greatest + "\n";
        }
    }

    private void refresh() {
        while (!over) {
            try {
                Thread.sleep(200);
                behaviour = JSON.readTree(behaviourFile.toFile());
            } catch (java.io.IOException halfWritten) {
                continue;
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    private void serve(String started) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", config.get("metrics_port").asInt()), 0);
        String listener = config.get("listener").asText();
        server.createContext("/metrics", exchange -> {
            String page = "process_start_time_seconds " + started + "\n" + fine.show(listener) + failed.show(listener);
            byte[] bytes = page.getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
            exchange.sendResponseHeaders(200, bytes.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(bytes);
            }
        });
        server.setExecutor(null);
        server.start();
    }

    private boolean named(String list) {
        for (JsonNode member : behaviour.get(list)) {
            if (member.asText().equals(name)) return true;
        }
        return false;
    }

    private void work(ConsumerRecord<byte[], byte[]> record) throws InterruptedException {
        JsonNode now = behaviour;
        if (named("stall_members")) Thread.sleep(Math.round(now.get("stall_seconds").asDouble() * 1000));
        if (now.get("poison_fails").asBoolean() && record.headers().lastHeader("poison") != null) {
            throw new IllegalStateException("this record cannot be handled");
        }
        Header kind = record.headers().lastHeader("event_type");
        String type = kind == null ? "" : new String(kind.value(), StandardCharsets.UTF_8);
        JsonNode seconds = now.get("process_seconds").get(type);
        if (seconds == null) return;
        double jitter = now.get("jitter").asDouble();
        double wait = seconds.asDouble() * (1 - jitter + 2 * jitter * random.nextDouble());
        TimeUnit.NANOSECONDS.sleep(Math.round(wait * 1e9));
    }

    private void handle(ConsumerRecords<byte[], byte[]> batch) throws InterruptedException {
        Set<TopicPartition> stuck = new HashSet<>();
        for (TopicPartition place : batch.partitions()) {
            for (ConsumerRecord<byte[], byte[]> record : batch.records(place)) {
                if (over || stuck.contains(place)) break;
                long began = System.nanoTime();
                try {
                    work(record);
                    fine.took((System.nanoTime() - began) / 1e9);
                    done.put(place, new OffsetAndMetadata(record.offset() + 1));
                } catch (IllegalStateException fails) {
                    failed.took((System.nanoTime() - began) / 1e9);
                    stuck.add(place);
                    consumer.pause(List.of(place));
                    consumer.seek(place, record.offset());
                    resumeAt.put(place, System.nanoTime() + RETRY_NANOS);
                }
            }
        }
    }

    private void commit() {
        if (done.isEmpty()) return;
        try {
            consumer.commitSync(done);
            done.clear();
        } catch (RetriableException later) {
            return; // with the next batch
        } catch (org.apache.kafka.clients.consumer.CommitFailedException gone) {
            done.clear(); // somebody else reads them already
        }
    }

    private void hold() {
        boolean wanted = named("held_members");
        if (wanted) {
            consumer.pause(consumer.assignment());
        } else if (held) {
            consumer.resume(consumer.assignment());
        }
        held = wanted;
        for (TopicPartition place : List.copyOf(resumeAt.keySet())) {
            if (resumeAt.get(place) <= System.nanoTime()) {
                resumeAt.remove(place);
                if (!held && consumer.assignment().contains(place)) consumer.resume(List.of(place));
            }
        }
    }

    private void run() throws InterruptedException {
        ConsumerRebalanceListener leave = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> places) {
                commit();
                done.keySet().removeAll(places);
                resumeAt.keySet().removeAll(places);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> places) {}
        };
        consumer.subscribe(List.of(config.get("topic").asText()), leave);
        try {
            while (!over) {
                hold();
                handle(consumer.poll(POLL));
                commit();
            }
        } catch (WakeupException ending) {
            commit();
        } finally {
            consumer.close();
        }
    }

    public static void main(String[] args) throws Exception {
        LabConsumer self = new LabConsumer(JSON.readTree(Path.of(args[0]).toFile()), Path.of(args[1]));
        CountDownLatch ended = new CountDownLatch(1);
        Thread polling = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            self.over = true;
            try {
                if (!ended.await(2, TimeUnit.SECONDS)) polling.interrupt(); // a handler that never returns
                ended.await(5, TimeUnit.SECONDS);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }));
        Thread watch = new Thread(self::refresh, "behaviour");
        watch.setDaemon(true);
        watch.start();
        self.serve(String.valueOf(System.currentTimeMillis() / 1000.0));
        Path part = Path.of(args[2] + ".part");
        String address = "{\"metrics\": \"127.0.0.1:" + self.config.get("metrics_port").asInt() + "\"}";
        Files.writeString(part, address);
        Files.move(part, Path.of(args[2]), StandardCopyOption.ATOMIC_MOVE);
        try {
            self.run();
        } finally {
            ended.countDown();
        }
    }
}

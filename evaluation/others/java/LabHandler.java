import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** What the lab's Kafka Streams application and its sink share: how long a record takes, by a file that is read again, and a page. */
public final class LabHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    final JsonNode config;
    private final Path behaviourFile;
    private final Path addressFile;
    private final Random random = new Random();
    private volatile JsonNode behaviour;

    /** Arguments: CONFIG.json BEHAVIOUR.json ADDRESS.json, as those of {@code LabConsumer}. */
    LabHandler(String[] args) throws IOException {
        config = JSON.readTree(Path.of(args[0]).toFile());
        behaviourFile = Path.of(args[1]);
        addressFile = Path.of(args[2]);
        behaviour = JSON.readTree(behaviourFile.toFile());
        Thread watch = new Thread(this::refresh, "behaviour");
        watch.setDaemon(true);
        watch.start();
    }

    /** How it behaves now. */
    JsonNode behaviour() {
        return behaviour;
    }

    String text(String name) {
        return config.get(name).asText();
    }

    /** The folder of the fleet's files. */
    Path folder() {
        return addressFile.toAbsolutePath().getParent();
    }

    private void refresh() {
        while (true) {
            try {
                Thread.sleep(200);
                behaviour = JSON.readTree(behaviourFile.toFile());
            } catch (IOException halfWritten) {
                continue;
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }

    /** The event type of a record; empty if it has none. */
    static String type(Headers headers) {
        Header kind = headers.lastHeader("event_type");
        return kind == null ? "" : new String(kind.value(), StandardCharsets.UTF_8);
    }

    /** Takes as long as a record of its type takes now; fails with one that cannot be handled. */
    void handle(Headers headers) {
        if (behaviour.get("poison_fails").asBoolean() && headers.lastHeader("poison") != null) {
            throw new IllegalStateException("this record cannot be handled");
        }
        work(type(headers));
    }

    /** The same; with patience, tries one that fails every second. False: it was interrupted meanwhile. */
    boolean handle(Headers headers, boolean patient) {
        while (true) {
            try {
                handle(headers);
                return true;
            } catch (IllegalStateException fails) {
                if (!patient) throw fails;
            }
            try {
                Thread.sleep(1000);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
    }

    /** Whether somebody holds this instance: it pauses then. */
    boolean isHeld() {
        return isNamed(behaviour, "held_members");
    }

    private boolean isNamed(JsonNode now, String list) {
        for (JsonNode member : now.get(list)) {
            if (member.asText().equals(text("client_id"))) return true;
        }
        return false;
    }

    /** Takes as long as a record of this type takes now. */
    void work(String type) {
        JsonNode now = behaviour;
        try {
            if (isNamed(now, "stall_members")) Thread.sleep(Math.round(now.get("stall_seconds").asDouble() * 1000));
            JsonNode seconds = now.get("process_seconds").get(type);
            if (seconds == null) return;
            double jitter = now.get("jitter").asDouble();
            double wait = seconds.asDouble() * (1 - jitter + 2 * jitter * random.nextDouble());
            TimeUnit.NANOSECONDS.sleep(Math.round(wait * 1e9));
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    /** A page with the start of the process; all that Kafka measures is left to the JMX agent. */
    void announce() throws IOException {
        String started = "process_start_time_seconds " + System.currentTimeMillis() / 1000.0 + "\n";
        announce(() -> started);
    }

    /** A page, made anew for whoever asks. */
    void announce(Supplier<String> shown) throws IOException {
        int port = config.get("metrics_port").asInt();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/metrics", exchange -> {
            byte[] page = shown.get().getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
            exchange.sendResponseHeaders(200, page.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(page);
            }
        });
        server.setExecutor(null);
        server.start();
        Path part = Path.of(addressFile + ".part");
        Files.writeString(part, "{\"metrics\": \"127.0.0.1:" + port + "\"}");
        Files.move(part, addressFile, StandardCopyOption.ATOMIC_MOVE);
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.micronaut.configuration.kafka.ConsumerRegistry;
import io.micronaut.context.ApplicationContext;
import java.util.HashMap;
import java.util.Map;
import lab.MicronautListeners;
import org.apache.kafka.common.header.Headers;

/** A Micronaut application of the lab, with one of {@code MicronautListeners}. Its page is what Micronaut and Micrometer show. */
public final class LabMicronaut {
    private static LabHandler handler;

    private static void take(Headers headers) {
        handler.handle(headers);
        JsonNode share = handler.behaviour().get("dead_share").get(LabHandler.type(headers));
        if (share != null && Math.random() < share.asDouble()) throw new IllegalArgumentException("this record is given up");
    }

    private static void hold(ConsumerRegistry consumers) throws InterruptedException {
        boolean held = false;
        while (true) {
            if (handler.isHeld() != held) {
                held = !held;
                for (String name : consumers.getConsumerIds()) {
                    if (held) consumers.pause(name);
                    else consumers.resume(name);
                }
            }
            Thread.sleep(200);
        }
    }

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        MicronautListeners.taker = record -> take(record.headers());
        Map<String, Object> settings = new HashMap<>();
        for (Map.Entry<String, JsonNode> entry : handler.config.get("micronaut").properties()) {
            settings.put(entry.getKey(), entry.getValue().asText());
        }
        ApplicationContext context = ApplicationContext.run(settings);
        handler.announce(context.getBean(PrometheusMeterRegistry.class)::scrape);
        hold(context.getBean(ConsumerRegistry.class));
    }
}

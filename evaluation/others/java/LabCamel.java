import com.fasterxml.jackson.databind.JsonNode;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.util.Map;
import org.apache.camel.Exchange;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.kafka.KafkaConstants;
import org.apache.camel.component.kafka.consumer.KafkaManualCommit;
import org.apache.camel.component.micrometer.routepolicy.MicrometerRoutePolicyFactory;
import org.apache.camel.main.Main;
import org.apache.kafka.common.header.Headers;

/**
 * A Camel application of the lab: a route that reads a topic, and handles records itself or hands them to a SEDA queue. Its page has
 * the meters of Camel's routes; what Kafka's client measures is left to the JMX agent.
 */
public final class LabCamel {
    private static LabHandler handler;

    private static void take(Exchange exchange) {
        Headers headers = exchange.getIn().getHeader(KafkaConstants.HEADERS, Headers.class);
        handler.handle(headers);
        JsonNode share = handler.behaviour().get("dead_share").get(LabHandler.type(headers));
        if (share != null && Math.random() < share.asDouble()) throw new IllegalArgumentException("this record is given up");
        KafkaManualCommit manual = exchange.getIn().getHeader(KafkaConstants.MANUAL_COMMIT, KafkaManualCommit.class);
        if (manual != null) manual.commit();
    }

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        StringBuilder from = new StringBuilder("kafka:" + handler.text("topic") + "?brokers=" + handler.text("bootstrap"));
        from.append("&groupId=").append(handler.text("group"));
        for (Map.Entry<String, JsonNode> entry : handler.config.get("camel").properties()) {
            from.append('&').append(entry.getKey()).append('=').append(entry.getValue().asText());
        }
        int seda = handler.config.get("seda").asInt();
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        MicrometerRoutePolicyFactory timers = new MicrometerRoutePolicyFactory();
        timers.setMeterRegistry(registry);
        Main main = new Main();
        main.configure().addRoutesBuilder(new RouteBuilder() {
            @Override
            public void configure() {
                getContext().addRoutePolicyFactory(timers);
                if (seda == 0) {
                    from(from.toString()).routeId("orders").process(LabCamel::take);
                } else {
                    from(from.toString()).routeId("orders").to("seda:work?blockWhenFull=true&size=100&waitForTaskToComplete=Never");
                    from("seda:work?size=100&concurrentConsumers=" + seda).routeId("work").process(LabCamel::take);
                }
            }
        });
        handler.announce(registry::scrape);
        main.run();
    }
}

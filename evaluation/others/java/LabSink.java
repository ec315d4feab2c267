import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectStandalone;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink of Kafka Connect in the lab, in a standalone worker: one task, which writes record by record. */
public class LabSink extends SinkConnector {
    private static volatile LabHandler handler;

    @Override
    public void start(Map<String, String> settings) {}

    @Override
    public void stop() {}

    @Override
    public Class<? extends Task> taskClass() {
        return Writer.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> found = new ArrayList<>();
        for (int number = 0; number < most; number++) found.add(Map.of());
        return found;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    /** Its task. */
    public static class Writer extends SinkTask {
        @Override
        public void start(Map<String, String> settings) {}

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                Header kind = record.headers().lastWithName("event_type");
                Object type = kind == null ? "" : kind.value();
                handler.work(type instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(type));
            }
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }

    private static Path written(String name, List<String> lines) throws java.io.IOException {
        return Files.write(handler.folder().resolve(handler.text("client_id") + "." + name + ".properties"), lines);
    }

    public static void main(String[] args) throws Exception {
        handler = new LabHandler(args);
        String bytes = "org.apache.kafka.connect.converters.ByteArrayConverter";
        List<String> worker = new ArrayList<>(List.of(
            "bootstrap.servers=" + handler.text("bootstrap"),
            "key.converter=" + bytes,
            "value.converter=" + bytes,
            "header.converter=" + bytes,
            "offset.storage.file.filename=" + handler.folder().resolve(handler.text("client_id") + ".offsets"),
            "offset.flush.interval.ms=1000",
            "task.shutdown.graceful.timeout.ms=2000",
            "plugin.discovery=only_scan",
            "listeners=http://127.0.0.1:0"));
        for (Map.Entry<String, JsonNode> entry : handler.config.get("kafka").properties()) {
            worker.add("consumer." + entry.getKey() + "=" + entry.getValue().asText());
            if (entry.getKey().startsWith("metrics.")) worker.add(entry.getKey() + "=" + entry.getValue().asText());
        }
        List<String> connector = List.of(
            "name=" + handler.text("client_id"),
            "connector.class=LabSink",
            "tasks.max=1",
            "topics=" + handler.text("topic"),
            // Several workers of one group, as the tasks of one connector in a cluster of workers are.
            "consumer.override.group.id=" + handler.text("group"),
            "consumer.override.auto.offset.reset=earliest");
        Path first = written("worker", worker);
        Path second = written("connector", connector);
        handler.announce();
        ConnectStandalone.main(new String[] {first.toString(), second.toString()});
    }
}

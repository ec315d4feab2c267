import java.io.FileWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.SinkFunction;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * A job of Flink's Kafka source with checkpoints and the Prometheus reporter. Its sink appends a line for each record: run, partition,
 * offset and time. It begins from the newest checkpoint that is there, and fails once if a file asks for it.
 *
 * <p>Arguments: bootstrap servers, topic, folder, run, port of the metrics, seconds between checkpoints.
 */
public final class FlinkJob {
  private static final long MILLISECONDS_A_RECORD = 2;

  public static void main(String[] args) throws Exception {
    Path folder = Path.of(args[2]);
    Configuration settings = new Configuration();
    settings.setString("metrics.reporter.prom.factory.class", "org.apache.flink.metrics.prometheus.PrometheusReporterFactory");
    settings.setString("metrics.reporter.prom.port", args[4]);
    settings.setString("execution.checkpointing.interval", args[5] + " s");
    settings.setString("execution.checkpointing.dir", folder.resolve("checkpoints").toUri().toString());
    settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    settings.setString("restart-strategy.type", "fixed-delay");
    settings.setString("restart-strategy.fixed-delay.attempts", "100");
    settings.setString("restart-strategy.fixed-delay.delay", "4 s");
    newestCheckpoint(folder.resolve("checkpoints"))
        .ifPresent(path -> settings.setString("execution.state-recovery.path", path.toUri().toString()));
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
    KafkaSource<String> source =
        KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setTopics(args[1])
            .setGroupId("pay")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setDeserializer(new Positions())
            .build();
    environment
        .fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
        .addSink(new Appending(folder.toString(), args[3]));
    environment.execute("pay-app");
  }

  private static Optional<Path> newestCheckpoint(Path folder) throws IOException {
    if (!Files.exists(folder)) {
      return Optional.empty();
    }
    try (Stream<Path> found = Files.walk(folder)) {
      return found
          .filter(path -> path.endsWith("_metadata"))
          .max(Comparator.comparingLong(path -> path.toFile().lastModified()))
          .map(Path::getParent);
    }
  }

  private static final class Positions implements KafkaRecordDeserializationSchema<String> {
    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
      out.collect(record.partition() + " " + record.offset());
    }

    @Override
    public TypeInformation<String> getProducedType() {
      return Types.STRING;
    }
  }

  private static final class Appending implements SinkFunction<String> {
    private final String folder;
    private final String run;

    Appending(String folder, String run) {
      this.folder = folder;
      this.run = run;
    }

    @Override
    public void invoke(String position, Context context) throws Exception {
      if (Files.deleteIfExists(Path.of(folder, "fail"))) {
        throw new IllegalStateException("this record fails once");
      }
      Thread.sleep(MILLISECONDS_A_RECORD);
      try (FileWriter sink = new FileWriter(folder + "/sink.txt", true)) {
        sink.write(run + " " + position + " " + System.currentTimeMillis() / 1000.0 + "\n");
      }
    }
  }
}

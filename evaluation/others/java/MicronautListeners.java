package lab;

import io.micrometer.core.annotation.Timed;
import io.micronaut.configuration.kafka.annotation.ErrorStrategy;
import io.micronaut.configuration.kafka.annotation.ErrorStrategyValue;
import io.micronaut.configuration.kafka.annotation.KafkaListener;
import io.micronaut.configuration.kafka.annotation.OffsetReset;
import io.micronaut.configuration.kafka.annotation.OffsetStrategy;
import io.micronaut.configuration.kafka.annotation.Topic;
import io.micronaut.context.annotation.Requires;
import io.micronaut.messaging.Acknowledgement;
import java.util.List;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The listeners of LabMicronaut, of which its settings choose one. Micronaut takes no beans without a package. */
public final class MicronautListeners {
    /** Takes a record, or throws. */
    public static volatile Consumer<ConsumerRecord<byte[], byte[]>> taker;

    private static void take(ConsumerRecord<byte[], byte[]> record) {
        taker.accept(record);
    }

    /** As the guide begins: offsets are committed by the client, and the rest of a poll is left out when a record fails. */
    @Requires(property = "lab.kind", value = "auto")
    @KafkaListener(groupId = "${lab.group}", clientId = "${lab.client}", offsetReset = OffsetReset.EARLIEST, threadsValue = "${lab.threads}")
    public static class Automatic {
        @Topic("${lab.topic}")
        @Timed("orders")
        public void receive(ConsumerRecord<byte[], byte[]> record) {
            take(record);
        }
    }

    /** One that goes on with the next record. */
    @Requires(property = "lab.kind", value = "resume")
    @KafkaListener(
        groupId = "${lab.group}", clientId = "${lab.client}", offsetReset = OffsetReset.EARLIEST, threadsValue = "${lab.threads}",
        offsetStrategy = OffsetStrategy.SYNC,
        errorStrategy = @ErrorStrategy(ErrorStrategyValue.RESUME_AT_NEXT_RECORD))
    public static class Resuming {
        @Topic("${lab.topic}")
        @Timed("orders")
        public void receive(ConsumerRecord<byte[], byte[]> record) {
            take(record);
        }
    }

    /** One that reads a record that fails again, every second. */
    @Requires(property = "lab.kind", value = "retry")
    @KafkaListener(
        groupId = "${lab.group}", clientId = "${lab.client}", offsetReset = OffsetReset.EARLIEST, threadsValue = "${lab.threads}",
        offsetStrategy = OffsetStrategy.SYNC_PER_RECORD,
        errorStrategy = @ErrorStrategy(value = ErrorStrategyValue.RETRY_ON_ERROR, retryDelay = "1s", retryCount = Integer.MAX_VALUE))
    public static class Retrying {
        @Topic("${lab.topic}")
        @Timed("orders")
        public void receive(ConsumerRecord<byte[], byte[]> record) {
            take(record);
        }
    }

    /** One that takes what a poll brings. */
    @Requires(property = "lab.kind", value = "batch")
    @KafkaListener(
        groupId = "${lab.group}", clientId = "${lab.client}", offsetReset = OffsetReset.EARLIEST, threadsValue = "${lab.threads}",
        offsetStrategy = OffsetStrategy.ASYNC,
        batch = true,
        errorStrategy = @ErrorStrategy(value = ErrorStrategyValue.RETRY_ON_ERROR, retryDelay = "1s", retryCount = Integer.MAX_VALUE))
    public static class Batches {
        @Topic("${lab.topic}")
        @Timed("orders")
        public void receive(List<ConsumerRecord<byte[], byte[]>> records) {
            for (ConsumerRecord<byte[], byte[]> record : records) take(record);
        }
    }

    /** One that acknowledges each record itself. */
    @Requires(property = "lab.kind", value = "manual")
    @KafkaListener(
        groupId = "${lab.group}", clientId = "${lab.client}", offsetReset = OffsetReset.EARLIEST, threadsValue = "${lab.threads}",
        offsetStrategy = OffsetStrategy.DISABLED,
        errorStrategy = @ErrorStrategy(ErrorStrategyValue.RESUME_AT_NEXT_RECORD))
    public static class Manual {
        @Topic("${lab.topic}")
        @Timed("orders")
        public void receive(ConsumerRecord<byte[], byte[]> record, Acknowledgement done) {
            take(record);
            done.ack();
        }
    }
}

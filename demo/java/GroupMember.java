import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A group member that commits what it has logged before it polls for more. Leaves its group on SIGTERM. */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);

    private final Arguments args;
    private final EventLog log = new EventLog();
    private final StopSignal stop = new StopSignal();

    private GroupMember(Arguments args) {
        this.args = args;
    }

    public static void main(String[] argv) {
        GroupMember member = new GroupMember(new Arguments(argv));
        try {
            member.run();
        } finally {
            member.stop.done();
        }
    }

    private void run() {
        Properties config = new Properties();
        config.putAll(args.tls());
        config.put("bootstrap.servers", args.get("bootstrap"));
        config.put("client.id", args.get("name"));
        config.put("group.id", args.get("group"));
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("heartbeat.interval.ms", "1000");
        config.put("session.timeout.ms", "10000");
        config.put("fetch.min.bytes", "16384");
        config.put("fetch.max.wait.ms", "100");
        config.put("max.poll.records", "2000");
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        log.event("started", ",\"bootstrap\":" + EventLog.quoted(args.get("bootstrap")));
        consumer.subscribe(List.of(args.get("topic")), this);
        while (!stop.isSet()) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            Map<TopicPartition, OffsetAndMetadata> positions = process(records);
            if (!positions.isEmpty()) {
                try {
                    consumer.commitSync(positions);
                } catch (KafkaException error) {
                    log.event("error", ",\"message\":" + EventLog.quoted("commit: " + error));
                }
            }
        }
        log.event("leaving", "");
        consumer.close();
        log.event("stopped", "");
    }

    /** Logs the records as read; returns the offsets to commit. */
    private Map<TopicPartition, OffsetAndMetadata> process(ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            StringBuilder offsets = new StringBuilder();
            StringBuilder ids = new StringBuilder();
            long next = 0;
            for (ConsumerRecord<byte[], byte[]> record : records.records(partition)) {
                String[] head = new String(record.value(), 0, 80, StandardCharsets.UTF_8).split(" ", 3);
                offsets.append(offsets.length() == 0 ? "" : ",").append(record.offset());
                ids.append(ids.length() == 0 ? "" : ",").append("[\"" + head[0] + "\"," + head[1] + "]");
                next = record.offset() + 1;
            }
            log.event("read", ",\"p\":" + partition.partition() + ",\"o\":[" + offsets + "],\"ids\":[" + ids + "]");
            positions.put(partition, new OffsetAndMetadata(next));
        }
        return positions;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        if (!partitions.isEmpty()) {
            log.event("revoked", ",\"p\":" + numbers(partitions)); // everything read is committed already
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        log.event("assigned", ",\"p\":" + numbers(partitions));
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(p -> String.valueOf(p.partition())).sorted()
            .collect(Collectors.joining(",", "[", "]"));
    }
}

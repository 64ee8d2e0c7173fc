import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Reads a topic and writes another one in transactions, its offsets with its records; until SIGTERM.
 *
 * A value says which record it was made of and in which transaction of how many: as demo/app/clients/booking.py writes
 * it. A transaction that a rebalance has overtaken is aborted, and what it read is read again.
 */
public final class Booking {
    private static final Duration POLL = Duration.ofMillis(200);

    private final Arguments args;
    private final String name;
    private final String started = Long.toString(System.currentTimeMillis());
    private final EventLog log = new EventLog();
    private final StopSignal stop = new StopSignal();
    private long transactions;

    private Booking(Arguments args) {
        this.args = args;
        this.name = args.get("name");
    }

    public static void main(String[] argv) {
        Booking booking = new Booking(new Arguments(argv));
        try {
            booking.run();
        } finally {
            booking.stop.done();
        }
    }

    private void run() {
        log.event("started", ",\"bootstrap\":" + EventLog.quoted(args.get("bootstrap")));
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(reads(), new ByteArrayDeserializer(), new ByteArrayDeserializer());
            KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(writes(), new ByteArraySerializer(), new ByteArraySerializer())) {
            consumer.subscribe(List.of(args.get("topic")));
            producer.initTransactions();
            while (!stop.isSet()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
                if (!records.isEmpty()) {
                    transactOrRewind(consumer, producer, records);
                }
            }
            log.event("leaving", "");
        } catch (KafkaException error) {
            log.event("error", ",\"message\":" + EventLog.quoted(error.toString()));
        }
        log.event("stopped", "");
    }

    private void transactOrRewind(
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer,
            ConsumerRecords<byte[], byte[]> records) {
        try {
            transact(consumer, producer, records);
        } catch (ProducerFencedException | OutOfOrderSequenceException
                | AuthorizationException | UnsupportedVersionException fatal) {
            throw fatal;
        } catch (KafkaException overtaken) {
            log.event("note", ",\"message\":" + EventLog.quoted("aborted: " + overtaken));
            producer.abortTransaction();
            consumer.unsubscribe();
            consumer.subscribe(List.of(args.get("topic"))); // from what is committed
        }
    }

    private void transact(
            KafkaConsumer<byte[], byte[]> consumer,
            KafkaProducer<byte[], byte[]> producer,
            ConsumerRecords<byte[], byte[]> records) {
        String tag = name + "." + started + "." + transactions++ + "/" + records.count();
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String[] head = new String(record.value(), 0, 80, StandardCharsets.UTF_8).split(" ", 3);
            byte[] value = (head[0] + " " + head[1] + " " + tag + " ").getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>(args.get("sink"), record.partition(), record.key(), value));
            positions.put(
                new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
        producer.commitTransaction();
    }

    private Properties reads() {
        Properties config = new Properties();
        config.put("bootstrap.servers", args.get("bootstrap"));
        config.put("client.id", name);
        config.put("group.id", args.get("group"));
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("isolation.level", "read_committed");
        config.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        config.put("fetch.min.bytes", "16384");
        config.put("fetch.max.wait.ms", "300");
        config.put("max.poll.records", "50");
        return config;
    }

    private Properties writes() {
        Properties config = new Properties();
        config.put("bootstrap.servers", args.get("bootstrap"));
        config.put("client.id", name);
        config.put("transactional.id", name);
        config.put("max.block.ms", "120000");
        return config;
    }
}

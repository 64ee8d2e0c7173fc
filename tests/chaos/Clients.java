import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own clients, writing their history (tests/checker/FORMAT.md) to a file of their own. Arguments: NAME=VALUE;
 * those with a dot are the client's. Ends in order when its input ends.
 */
public final class Clients {
    private static volatile boolean stopped;

    public static void main(String[] argv) throws Exception {
        Map<String, String> options = new HashMap<>();
        Properties config = new Properties();
        for (String argument : argv) {
            String[] pair = argument.split("=", 2);
            if (pair[0].contains(".")) {
                config.put(pair[0], pair[1]);
            } else {
                options.put(pair[0], pair[1]);
            }
        }
        Thread watch = new Thread(Clients::awaitEnd);
        watch.setDaemon(true);
        watch.start();
        try (History history = new History(Path.of(options.get("history")), options.get("process"))) {
            if (options.get("do").equals("produce")) {
                produce(options, config, history);
            } else {
                new Member(options, config, history).run();
            }
        }
        System.exit(0);
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException end) {
            // as good as an end
        }
        stopped = true;
    }

    private static void produce(Map<String, String> options, Properties config, History history) throws Exception {
        String[] keys = options.get("keys").split(",");
        double rate = Double.parseDouble(options.get("rate"));
        history.open("{\"side\":\"" + options.get("side") + "\"}");
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        long due = System.nanoTime();
        for (long n = 0; !stopped; n++) {
            send(producer, history, keys[(int) (n % keys.length)], n);
            due = Math.max(due + (long) (1e9 / rate), System.nanoTime() - 1_000_000_000L);
            Thread.sleep(Math.max(0, (due - System.nanoTime()) / 1_000_000));
        }
        producer.close(Duration.ofSeconds(100));
    }

    private static void send(KafkaProducer<String, String> producer, History history, String key, long number) {
        String topic = key.substring(0, key.lastIndexOf('/'));
        int partition = Integer.parseInt(key.substring(key.lastIndexOf('/') + 1));
        String value = history.process + ":" + number;
        String sent = "[[\"send\",\"" + key + "\",\"" + value + "\"]]";
        history.write("invoke", "send", sent, number);
        producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
            if (error == null) {
                String offset = metadata.hasOffset() ? Long.toString(metadata.offset()) : "null";
                String told = "[[\"send\",\"" + key + "\",[" + offset + ",\"" + value + "\"]]]";
                history.write("ok", "send", told, number);
            } else {
                System.err.println(key + ": " + error);
                history.write("unknown", "send", sent, number);
            }
        });
    }

    /** A member of a group: records what it read, then commits it. */
    private static final class Member implements ConsumerRebalanceListener {
        private final Map<String, String> options;
        private final Properties config;
        private final History history;

        Member(Map<String, String> options, Properties config, History history) {
            this.options = options;
            this.config = config;
            this.history = history;
        }

        void run() {
            history.open("{\"side\":\"" + options.get("side") + "\",\"group\":\"" + config.get("group.id")
                + "\",\"reset\":\"earliest\"}");
            KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(options.get("topics").split(",")), this);
            while (!stopped) {
                try {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                    if (!records.isEmpty()) {
                        got(consumer, records);
                    }
                } catch (KafkaException error) {
                    System.err.println("poll: " + error);
                }
            }
            consumer.close();
        }

        private void got(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            String read = records.partitions().stream().map(at -> {
                String pairs = records.records(at).stream()
                    .map(record -> "[" + record.offset() + ",\"" + record.value() + "\"]")
                    .collect(Collectors.joining(","));
                List<?> all = records.records(at);
                next.put(at, new OffsetAndMetadata(records.records(at).get(all.size() - 1).offset() + 1));
                return name(at) + ":[" + pairs + "]";
            }).collect(Collectors.joining(",", "{", "}"));
            history.write("invoke", "poll", "[[\"poll\"]]", -1);
            history.write("ok", "poll", "[[\"poll\"," + read + "]]", -1);
            String commit = next.entrySet().stream().map(e -> name(e.getKey()) + ":" + e.getValue().offset())
                .collect(Collectors.joining(",", "{", "}"));
            history.write("invoke", "commit", commit, -1);
            try {
                consumer.commitSync(next, Duration.ofSeconds(10));
                history.write("ok", "commit", commit, -1);
            } catch (KafkaException error) {
                System.err.println("commit: " + error);
                history.write("unknown", "commit", commit, -1);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            history.write("ok", "revoke", names(partitions), -1);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            history.write("ok", "assign", names(partitions), -1);
        }

        private static String names(Collection<TopicPartition> partitions) {
            return partitions.stream().map(Member::name).collect(Collectors.joining(",", "[", "]"));
        }

        private static String name(TopicPartition at) {
            return "\"" + at.topic() + "/" + at.partition() + "\"";
        }
    }

    /** The file. Time is the machine's monotonic clock, as Python's time.monotonic_ns. */
    private static final class History implements AutoCloseable {
        final String process;
        private final BufferedWriter file;

        History(Path path, String process) throws IOException {
            this.process = process;
            this.file = Files.newBufferedWriter(path, StandardCharsets.UTF_8);
        }

        void open(String value) {
            write("ok", "open", value, -1);
        }

        synchronized void write(String type, String f, String value, long number) {
            try {
                file.write("{\"type\":\"" + type + "\",\"process\":\"" + process + "\",\"f\":\"" + f + "\",\"value\":" + value
                    + (number < 0 ? "" : ",\"id\":" + number) + ",\"time\":" + System.nanoTime() + "}\n");
                file.flush();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public synchronized void close() throws IOException {
            file.close();
        }
    }
}

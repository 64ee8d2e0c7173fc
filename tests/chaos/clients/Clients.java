import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
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
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.TimeoutException;
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
            switch (options.get("do")) {
                case "produce" -> produce(options, config, history);
                case "consume" -> new Member(options, config, history).run();
                default -> new Pipeline(options, config, history).run();
            }
        } catch (KafkaException error) {
            System.err.println("ended: " + error);
            System.exit(1);
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
    private static class Member implements ConsumerRebalanceListener {
        final Map<String, String> options;
        final Properties config;
        final History history;

        Member(Map<String, String> options, Properties config, History history) {
            this.options = options;
            this.config = config;
            this.history = history;
        }

        KafkaConsumer<String, String> open(String more) {
            history.open("{\"side\":\"" + options.get("side") + "\",\"group\":\"" + config.get("group.id")
                + "\",\"reset\":\"earliest\"" + more + "}");
            KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(options.get("topics").split(",")), this);
            return consumer;
        }

        void run() {
            KafkaConsumer<String, String> consumer = open("");
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
            Map<TopicPartition, OffsetAndMetadata> next = next(records);
            history.write("invoke", "poll", "[[\"poll\"]]", -1);
            history.write("ok", "poll", "[[\"poll\"," + read(records) + "]]", -1);
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

        static Map<TopicPartition, OffsetAndMetadata> next(ConsumerRecords<String, String> records) {
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            for (TopicPartition at : records.partitions()) {
                List<ConsumerRecord<String, String>> all = records.records(at);
                next.put(at, new OffsetAndMetadata(all.get(all.size() - 1).offset() + 1));
            }
            return next;
        }

        static String read(ConsumerRecords<String, String> records) {
            return records.partitions().stream().map(at -> name(at) + records.records(at).stream()
                .map(record -> "[" + record.offset() + ",\"" + record.value() + "\"]")
                .collect(Collectors.joining(",", ":[", "]"))).collect(Collectors.joining(",", "{", "}"));
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

    /**
     * Consume-transform-produce: what it reads goes to another topic as "value|its own name and number", with the offsets
     * in the same transaction.
     */
    private static final class Pipeline extends Member {
        private long number;
        private KafkaProducer<String, String> producer;

        Pipeline(Map<String, String> options, Properties config, History history) {
            super(options, config, history);
        }

        @Override
        void run() {
            openProducer();
            KafkaConsumer<String, String> consumer = open(",\"commits\":false");
            while (!stopped) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (!records.isEmpty()) {
                    transact(consumer, records);
                }
            }
            consumer.close();
            producer.close(Duration.ofSeconds(10));
        }

        private void openProducer() {
            producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
            producer.initTransactions();
        }

        /** Throws when nobody knows how it ended, or the producer is of no use any more: the next life goes on. */
        private void transact(KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
            List<ProducerRecord<String, String>> out = new ArrayList<>();
            int partitions = Integer.parseInt(options.get("partitions"));
            for (ConsumerRecord<String, String> in : records) {
                String value = in.value() + "|" + history.process + ":" + number++;
                out.add(new ProducerRecord<>(options.get("output"), in.partition() % partitions, null, value));
            }
            history.write("invoke", "txn", sent(out, "[\"poll\"]", ""), -1);
            boolean committing = false;
            try {
                producer.beginTransaction();
                out.forEach(producer::send);
                producer.sendOffsetsToTransaction(next(records), consumer.groupMetadata());
                committing = true;
                producer.commitTransaction();
            } catch (KafkaException error) {
                System.err.println((committing ? "commit: " : "transaction: ") + error);
                if (committing && error instanceof TimeoutException) {
                    throw error;
                }
                producer.abortTransaction();
                history.write("fail", "txn", "[]", -1);
                rest();
                if (error instanceof AuthorizationException || error instanceof OutOfOrderSequenceException) {
                    // As KafkaProducer's documentation wants it. One that goes on commits offsets of the aborted
                    // transaction with the next one: what was not sent for an error is not forgotten (4.3.1).
                    producer.close(Duration.ofSeconds(10));
                    openProducer();
                }
                records.partitions().forEach(at -> consumer.seek(at, records.records(at).get(0).offset()));
                return;
            }
            history.write("ok", "txn", sent(out, "[\"poll\"," + read(records) + "]", "null"), -1);
        }

        /** Transactions are refused while its group and its topic are on different clusters. */
        private static void rest() {
            try {
                Thread.sleep(300);
            } catch (InterruptedException end) {
                stopped = true;
            }
        }

        private static String sent(List<ProducerRecord<String, String>> out, String poll, String offset) {
            return out.stream().map(record -> {
                String value = "\"" + record.value() + "\"";
                String told = offset.isEmpty() ? value : "[" + offset + "," + value + "]";
                return ",[\"send\",\"" + record.topic() + "/" + record.partition() + "\"," + told + "]";
            }).collect(Collectors.joining("", "[" + poll, "]"));
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

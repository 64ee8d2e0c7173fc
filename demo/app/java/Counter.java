import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams with exactly_once_v2: counts the records of each bucket over a repartition topic and a changelog.
 *
 * A count is written as "BUCKET COUNT ", so that the demo's checker can read the changelog and the output alike.
 */
public final class Counter {
    private static final int BUCKETS = 10;
    private static final Duration CLOSES = Duration.ofSeconds(20);

    private Counter() {
    }

    public static void main(String[] argv) throws InterruptedException {
        Arguments args = new Arguments(argv);
        EventLog log = new EventLog();
        StopSignal stop = new StopSignal();
        KafkaStreams streams = new KafkaStreams(topology(args), config(args));
        streams.setUncaughtExceptionHandler(error -> {
            log.event("error", ",\"message\":" + EventLog.quoted(error.toString()));
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        log.event("started", ",\"bootstrap\":" + EventLog.quoted(args.get("bootstrap")));
        while (!stop.isSet()) {
            Thread.sleep(50);
        }
        log.event("leaving", "");
        streams.close(CLOSES); // a member at the gate is in a rebalance that ends when it is let in: it is not waited for
        log.event("stopped", "");
        stop.done();
    }

    /** The client id is the application's own, so that an operator can tell its members on both clusters. */
    private static Properties config(Arguments args) {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args.get("bootstrap"));
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args.get("group"));
        config.put(StreamsConfig.CLIENT_ID_CONFIG, args.get("name"));
        config.put(StreamsConfig.STATE_DIR_CONFIG, args.get("state"));
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        config.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 60000);
        config.put("auto.offset.reset", "earliest");
        return config;
    }

    private static Topology topology(Arguments args) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(args.get("topic"), Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, value) -> bucketOf(value), Grouped.with("buckets", Serdes.String(), Serdes.String()))
            .aggregate(
                () -> "",
                (bucket, value, before) -> bucket + " " + (countOf(before) + 1) + " ",
                Materialized.<String, String>as(Stores.inMemoryKeyValueStore("counts"))
                    .withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .toStream()
            .to(args.get("sink"), Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static String bucketOf(String value) {
        return "bucket-" + Long.parseLong(value.split(" ", 3)[1]) % BUCKETS;
    }

    private static long countOf(String told) {
        return told.isEmpty() ? 0 : Long.parseLong(told.split(" ", 3)[1]);
    }
}

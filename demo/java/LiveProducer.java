import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes demo records at an even rate until SIGTERM; idempotent as the Java producer is by default. */
public final class LiveProducer {
    private static final int CUSTOMERS = 997;
    private static final int TICK_MS = 10;

    private final Arguments args;
    private final String name;
    private final EventLog log = new EventLog();
    private final Values values;
    private final StopSignal stop = new StopSignal();

    private LiveProducer(Arguments args) {
        this.args = args;
        this.name = args.get("name");
        this.values = new Values(name);
    }

    public static void main(String[] argv) throws Exception {
        LiveProducer producer = new LiveProducer(new Arguments(argv));
        try {
            producer.run();
        } finally {
            producer.stop.done();
        }
    }

    private void run() throws InterruptedException {
        Properties config = new Properties();
        config.putAll(args.tls());
        config.put("bootstrap.servers", args.get("bootstrap"));
        config.put("client.id", name);
        config.put("compression.type", args.get("codec"));
        config.put("linger.ms", "5");
        double rate = Double.parseDouble(args.get("rate"));
        long seq = Long.parseLong(args.get("first"));
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        log.event("started", ",\"bootstrap\":" + EventLog.quoted(args.get("bootstrap")) + ",\"first\":" + seq);
        double due = 0;
        long last = System.nanoTime();
        while (!stop.isSet()) {
            long now = System.nanoTime();
            due = Math.min(due + (now - last) * rate / 1e9, rate);
            last = now;
            while (due >= 1 && !stop.isSet()) {
                send(producer, seq++);
                due -= 1;
            }
            Thread.sleep(TICK_MS);
            log.flush();
        }
        producer.close(Duration.ofSeconds(30)); // waits for every acknowledgement
        log.event("stopped", ",\"next\":" + seq);
    }

    private void send(KafkaProducer<byte[], byte[]> producer, long seq) {
        List<Header> headers = List.of(
            new RecordHeader("origin", name.getBytes(StandardCharsets.UTF_8)),
            new RecordHeader("number", Long.toString(seq).getBytes(StandardCharsets.UTF_8)));
        byte[] key = ("customer-" + seq % CUSTOMERS).getBytes(StandardCharsets.UTF_8);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            args.get("topic"), null, System.currentTimeMillis(), key, values.of(seq), headers); // the key chooses
        producer.send(record, (metadata, error) -> {
            if (error == null) {
                log.ack(seq, metadata.partition(), metadata.hasOffset() ? metadata.offset() : -1);
            } else {
                log.event("error", ",\"s\":" + seq + ",\"message\":" + EventLog.quoted(error.toString()));
            }
        });
    }
}

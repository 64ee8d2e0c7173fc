import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes transactions, one each 200 ms, every fifth one aborted; until SIGTERM. */
public final class LiveLedger {
    private static final int CUSTOMERS = 997;
    private static final int TRANSACTION_MS = 200;
    private static final int ABORT_EVERY = 5;

    private final Arguments args;
    private final String name;
    private final EventLog log = new EventLog();
    private final Values values;
    private final StopSignal stop = new StopSignal();

    private LiveLedger(Arguments args) {
        this.args = args;
        this.name = args.get("name");
        this.values = new Values(name);
    }

    public static void main(String[] argv) throws Exception {
        LiveLedger ledger = new LiveLedger(new Arguments(argv));
        try {
            ledger.run();
        } finally {
            ledger.stop.done();
        }
    }

    private void run() throws InterruptedException {
        Properties config = new Properties();
        config.put("bootstrap.servers", args.get("bootstrap"));
        config.put("client.id", name);
        config.put("transactional.id", name);
        config.put("compression.type", args.get("codec"));
        config.put("linger.ms", "5");
        int count = (int) Math.max(1, Math.round(Double.parseDouble(args.get("rate")) * TRANSACTION_MS / 1000));
        long seq = Long.parseLong(args.get("first"));
        log.event("started", ",\"bootstrap\":" + EventLog.quoted(args.get("bootstrap")) + ",\"first\":" + seq);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            for (int turn = 1; !stop.isSet(); turn++) {
                long due = System.currentTimeMillis() + TRANSACTION_MS;
                transaction(producer, seq, count, turn % ABORT_EVERY == 0);
                seq += count;
                Thread.sleep(Math.max(0, due - System.currentTimeMillis()));
            }
        } catch (RuntimeException error) {
            log.event("error", ",\"message\":" + EventLog.quoted(error.toString()));
        }
        log.event("stopped", ",\"next\":" + seq);
    }

    /** The records of an aborted one are flushed first: what was never written would prove nothing. */
    private void transaction(KafkaProducer<byte[], byte[]> producer, long first, int count, boolean abort) {
        List<Future<RecordMetadata>> written = new ArrayList<>();
        producer.beginTransaction();
        for (long seq = first; seq < first + count; seq++) {
            written.add(producer.send(record(seq)));
        }
        if (abort) {
            producer.flush();
            producer.abortTransaction();
            log.event("aborted", ",\"first\":" + first + ",\"next\":" + (first + count));
            return;
        }
        producer.commitTransaction();
        try {
            for (int i = 0; i < count; i++) {
                RecordMetadata at = written.get(i).get();
                log.ack(first + i, at.partition(), at.hasOffset() ? at.offset() : -1);
            }
        } catch (Exception error) {
            log.event("error", ",\"message\":" + EventLog.quoted(error.toString()));
        }
        log.flush();
    }

    private ProducerRecord<byte[], byte[]> record(long seq) {
        List<Header> headers = List.of(
            new RecordHeader("origin", name.getBytes(StandardCharsets.UTF_8)),
            new RecordHeader("number", Long.toString(seq).getBytes(StandardCharsets.UTF_8)));
        byte[] key = ("customer-" + seq % CUSTOMERS).getBytes(StandardCharsets.UTF_8);
        return new ProducerRecord<>(args.get("topic"), null, System.currentTimeMillis(), key, values.of(seq), headers);
    }
}

import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The producer of produce.py, on the Java client. Arguments: NAME=VALUE; those with a dot are the client's own. */
public final class Produce {
    private static final int TRANSACTION = 10;
    private static final int ABORT_EVERY = 4;
    private static final AtomicBoolean STOPPED = new AtomicBoolean();

    public static void main(String[] argv) {
        Properties options = new Properties();
        Properties config = new Properties();
        for (String argument : argv) {
            String[] pair = argument.split("=", 2);
            (pair[0].contains(".") ? config : options).put(pair[0], pair[1]);
        }
        Thread watch = new Thread(Produce::awaitEnd);
        watch.setDaemon(true);
        watch.start();
        config.putIfAbsent("linger.ms", "5");
        try {
            run(options, config);
        } catch (Exception error) {
            say("{\"error\":" + quoted(error.toString()) + "}");
        }
        say("{\"stopped\":true}");
        System.exit(0);
    }

    private static void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (java.io.IOException end) {
            // as good as an end
        }
        STOPPED.set(true);
    }

    private static void run(Properties options, Properties config) throws Exception {
        String name = options.getProperty("name");
        String topic = options.getProperty("topic");
        int partitions = Integer.parseInt(options.getProperty("partitions"));
        double rate = Double.parseDouble(options.getProperty("rate"));
        String[] sizes = options.getProperty("sizes").split(",");
        boolean transactional = Boolean.parseBoolean(options.getProperty("transactional"));
        if (transactional) {
            config.put("transactional.id", name);
        }
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (transactional) {
                producer.initTransactions();
            }
            long due = System.currentTimeMillis();
            for (int first = 0; !STOPPED.get(); first += TRANSACTION) {
                boolean abort = transactional && first / TRANSACTION % ABORT_EVERY == ABORT_EVERY - 1;
                if (transactional) {
                    producer.beginTransaction();
                }
                for (int n = first; n < first + TRANSACTION; n++) {
                    final int number = n;
                    byte[] key = (name + " " + n + (abort ? " aborted" : "")).getBytes();
                    byte[] value = new byte[Integer.parseInt(sizes[n % sizes.length])];
                    producer.send(new ProducerRecord<>(topic, n % partitions, key, value), (at, error) -> {
                        if (error != null) {
                            say("{\"error\":" + quoted(number + ": " + error) + "}");
                        } else if (!transactional) {
                            say("{\"ack\":" + number + "}");
                        }
                    });
                }
                if (abort) {
                    producer.flush();
                    producer.abortTransaction();
                    say("{\"aborted\":" + first + "}");
                } else if (transactional) {
                    producer.commitTransaction();
                    say("{\"from\":" + first + ",\"to\":" + (first + TRANSACTION) + "}");
                }
                due += (long) (1000 * TRANSACTION / rate);
                Thread.sleep(Math.max(0, due - System.currentTimeMillis()));
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + "\"";
    }
}

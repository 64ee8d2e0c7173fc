import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** One transaction: a record to a topic, and an offset of a group in another topic. Says what was thrown, and where. */
public final class Offsets {
    private Offsets() {
    }

    public static void main(String[] arguments) {
        Properties config = new Properties();
        config.put("bootstrap.servers", arguments[0]);
        config.put("transactional.id", arguments[1]);
        config.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        config.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(config);
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(arguments[2], 0, null, "torn"));
        producer.flush();
        Map<TopicPartition, OffsetAndMetadata> offsets =
            Map.of(new TopicPartition(arguments[3], 0), new OffsetAndMetadata(1));
        step("offsets", () -> producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(arguments[4])));
        step("abort", producer::abortTransaction);
        step("begin", producer::beginTransaction);
        Runtime.getRuntime().halt(0);
    }

    private static void step(String name, Runnable work) {
        try {
            work.run();
            System.out.println(name + " ok");
        } catch (RuntimeException error) {
            Throwable root = error;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            System.out.println(name + " " + root.getClass().getSimpleName());
        }
    }
}

import java.nio.charset.StandardCharsets;
import java.util.Random;

/** The values of a producer's records: its name, the record's number, padding up to 1 KB. */
final class Values {
    private static final int VALUE_BYTES = 1024;

    private final String name;
    private final byte[] padding = new byte[64 * 1024];

    Values(String name) {
        this.name = name;
        Random random = new Random(7);
        for (int i = 0; i < padding.length; i++) {
            padding[i] = (byte) ('a' + random.nextInt(26));
        }
    }

    byte[] of(long seq) {
        byte[] head = (name + " " + seq + " ").getBytes(StandardCharsets.UTF_8);
        byte[] value = new byte[VALUE_BYTES];
        System.arraycopy(head, 0, value, 0, head.length);
        int start = (int) (seq * 131 % (padding.length - VALUE_BYTES));
        System.arraycopy(padding, start, value, head.length, VALUE_BYTES - head.length);
        return value;
    }
}

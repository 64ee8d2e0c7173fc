import java.util.HashMap;
import java.util.Map;

/** Command line of the form --name value. */
final class Arguments {
    private final Map<String, String> values = new HashMap<>();

    Arguments(String[] args) {
        for (int i = 0; i + 1 < args.length; i += 2) {
            values.put(args[i], args[i + 1]);
        }
    }

    String get(String name) {
        String value = values.get("--" + name);
        if (value == null) {
            throw new IllegalArgumentException("missing --" + name);
        }
        return value;
    }
}

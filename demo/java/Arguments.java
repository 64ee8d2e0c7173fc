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

    /** Settings of SSL for --tls FOLDER, which holds ca.pem and NAME.pem; none without it. */
    Map<String, String> tls() {
        String folder = values.get("--tls");
        if (folder == null) {
            return Map.of();
        }
        return Map.of(
            "security.protocol", "SSL",
            "ssl.truststore.type", "PEM",
            "ssl.truststore.location", folder + "/ca.pem",
            "ssl.keystore.type", "PEM",
            "ssl.keystore.location", folder + "/" + get("name") + ".pem");
    }

    String get(String name) {
        String value = values.get("--" + name);
        if (value == null) {
            throw new IllegalArgumentException("missing --" + name);
        }
        return value;
    }
}
